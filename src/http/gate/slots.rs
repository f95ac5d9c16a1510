//! All client connections: a fixed number of places, and one sum of bytes.

use super::slot::{Slot, Stage};

/// The places.
pub struct Slots {
    places: Vec<Option<Slot>>,
    bytes_max: usize,
    farewell: Vec<u8>,
}

impl Slots {
    /// So many places, which may hold so many bytes between them. One that is cleared for another
    /// gets the farewell.
    pub fn new(places: usize, bytes_max: usize, farewell: Vec<u8>) -> Self {
        Self { places: std::iter::repeat_with(|| None).take(places).collect(), bytes_max, farewell }
    }

    /// The connection in this place.
    pub fn get(&mut self, place: usize) -> Option<&mut Slot> {
        self.places.get_mut(place)?.as_mut()
    }

    /// Every connection with its place.
    pub fn iter(&self) -> impl Iterator<Item = (usize, &Slot)> {
        self.places.iter().enumerate().filter_map(|(place, slot)| Some((place, slot.as_ref()?)))
    }

    /// Every connection.
    pub fn iter_mut(&mut self) -> impl Iterator<Item = &mut Slot> {
        self.places.iter_mut().flatten()
    }

    /// How many places are taken.
    pub fn len(&self) -> usize {
        self.iter().count()
    }

    /// Whether a new connection would find a place, be it by taking another's.
    pub fn can_take(&self) -> bool {
        self.iter().count() < self.places.len() || self.candidate(None).is_some()
    }

    /// Puts a connection into a free place, clearing one if there is none.
    pub fn insert(&mut self, slot: Slot) -> Option<usize> {
        let free = self.places.iter().position(Option::is_none);
        let place = free.or_else(|| self.evict(None))?;
        self.places[place] = Some(slot);
        Some(place)
    }

    /// Closes a connection.
    pub fn close(&mut self, place: usize) {
        if let Some(slot) = self.places.get_mut(place) {
            *slot = None;
        }
    }

    /// Closes the connection that has made the gate wait the longest.
    pub fn evict(&mut self, except: Option<usize>) -> Option<usize> {
        let place = self.candidate(except)?;
        if let Some(mut slot) = self.places[place].take() {
            slot.farewell(&self.farewell);
        }
        Some(place)
    }

    /// Bytes held by all connections.
    pub fn bytes(&self) -> usize {
        self.iter().map(|(_, slot)| slot.bytes()).sum()
    }

    /// Makes sure that `more` bytes fit beside what the connections and `others` hold, closing the
    /// connections that have waited longest for their clients; not the one in the place `except`.
    pub fn make_room(&mut self, more: usize, others: usize, except: Option<usize>) -> bool {
        if others + more > self.bytes_max {
            return false;
        }
        while self.bytes() + others + more > self.bytes_max {
            if self.evict(except).is_none() {
                return false;
            }
        }
        true
    }

    /// One that was already answered goes first, then the oldest.
    fn candidate(&self, except: Option<usize>) -> Option<usize> {
        let evictable = self.iter().filter(|(place, slot)| Some(*place) != except && slot.evictable());
        let rank = |slot: &Slot| (!matches!(slot.stage, Stage::Lingering { .. }), slot.since);
        evictable.min_by_key(|(_, slot)| rank(slot)).map(|(place, _)| place)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::http::socket::Stream;
    use std::os::unix::net::UnixStream;
    use std::time::{Duration, Instant};

    fn slot(age: u64, stage: Stage) -> Slot {
        let since = Instant::now().checked_sub(Duration::from_secs(100 + age)).unwrap();
        let mut slot = Slot::new(Stream::Unix(UnixStream::pair().unwrap().0), since, since);
        slot.stage = stage;
        slot
    }

    fn head(bytes: usize) -> Stage {
        Stage::Head { bytes: Vec::with_capacity(bytes), scanned: 0 }
    }

    #[test]
    fn slots_run_out_and_the_oldest_incomplete_goes() {
        let mut slots = Slots::new(4, 1000, Vec::new());
        slots.insert(slot(9, Stage::Waiting { request: Vec::new() })).unwrap();
        slots.insert(slot(2, head(0))).unwrap();
        slots.insert(slot(3, head(0))).unwrap();
        slots.insert(slot(1, Stage::Lingering { left: 1 })).unwrap();
        assert_eq!(slots.insert(slot(0, head(0))), Some(3), "an answered one first");
        assert_eq!(slots.insert(slot(0, head(0))), Some(2), "then the oldest");
        for place in 1..4 {
            slots.get(place).unwrap().stage = Stage::Answering;
        }
        assert!(!slots.can_take());
        assert_eq!(slots.insert(slot(0, head(0))), None, "never one that waits for us");
        assert_eq!(slots.len(), 4);
    }

    #[test]
    fn slots_room_is_made_from_the_oldest_but_not_from_oneself() {
        let mut slots = Slots::new(8, 1000, Vec::new());
        let myself = slots.insert(slot(9, head(300))).unwrap();
        let old = slots.insert(slot(5, Stage::Delivering { answer: Vec::with_capacity(300), sent: 0 })).unwrap();
        let new = slots.insert(slot(1, head(300))).unwrap();
        assert!(slots.make_room(100, 0, Some(myself)));
        assert_eq!(slots.len(), 3);
        assert!(slots.make_room(100, 200, Some(myself)));
        assert!(slots.get(old).is_none() && slots.get(new).is_some());
        assert!(!slots.make_room(1001, 0, Some(myself)));
        assert_eq!(slots.len(), 2, "nobody is closed for what cannot be had");
    }
}
