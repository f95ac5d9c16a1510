//! Who can reach the API: there is no TLS, so beyond this machine it needs something in front.

use super::finding::Finding;
use super::place::Place;
use crate::http::socket::connect;
use crate::store::folders::runtime_of;
use std::fs;
use std::net::SocketAddr;

/// Looks, and decides.
pub fn look(place: &Place) -> Finding {
    let settings = place.settings.as_ref();
    // What a daemon really listens on may have come from its flags.
    let runtime = runtime_of(&place.state);
    // One that was killed has left its own behind.
    let is_served = connect(&runtime.join("api.sock")).is_ok();
    let real = is_served.then(|| fs::read_to_string(runtime.join("address")).ok()).flatten();
    let real = real.and_then(|text| text.trim().parse().ok());
    let is_on = settings.is_none_or(|settings| settings.api.value);
    decide(real.or_else(|| settings.and_then(|settings| settings.listen.value)), is_on)
}

fn decide(address: Option<SocketAddr>, is_on: bool) -> Finding {
    match address {
        Some(address) if address.ip().to_canonical().is_loopback() => {
            Finding::ok(format!("{address}, from this machine only"))
        }
        Some(address) => Finding::warn(
            format!("{address} can be reached from elsewhere, and tokens go over it in the clear"),
            "listen on 127.0.0.1 and put a proxy with TLS in front, or close the port to all but friends",
        ),
        None if is_on => Finding::ok("on the local socket only"),
        None => Finding::ok("nowhere: the API is off"),
    }
}

#[cfg(test)]
mod tests {
    use super::super::finding::Level;
    use super::*;

    #[test]
    fn beyond_this_machine_is_a_warning() {
        let level = |address: &str| decide(Some(address.parse().unwrap()), true).level;
        for local in ["127.0.0.1:80", "127.8.8.8:80", "[::1]:80", "[::ffff:127.0.0.1]:80"] {
            assert_eq!(level(local), Level::Ok, "{local}");
        }
        for open in ["0.0.0.0:80", "[::]:80", "192.168.1.1:80", "[fe80::1]:80"] {
            assert_eq!(level(open), Level::Warn, "{open}");
        }
        assert_eq!(decide(None, true).level, Level::Ok);
        assert_eq!(decide(None, false).level, Level::Ok);
    }
}
