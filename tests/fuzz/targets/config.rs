//! A configuration file: what is refused names its key in a sentence, what is read comes to settings that hold
//! together, and the same text read again changes nothing.

use qinglet::model::config::{Config, parse};
use qinglet::model::settings::Settings;

pub fn run(data: &[u8]) {
    let config = match parse(data) {
        Ok(config) => config,
        Err(why) => return assert!(!why.what.is_empty() && why.to_string().ends_with(&why.what)),
    };
    for folder in [&config.state, &config.logs, &config.runtime].into_iter().flatten() {
        assert!(folder.is_absolute());
    }
    let settings = match Settings::resolve(&Config::default(), &config) {
        Ok(settings) => settings,
        Err(why) => return assert!(!why.is_empty()),
    };
    assert_eq!(parse(data).as_ref(), Ok(&config));
    let flags = Settings::resolve(&config, &Config::default()).expect("as flags they come to the same");
    assert_eq!(flags.limits(), settings.limits());
}
