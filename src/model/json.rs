//! JSON as it comes in (strict) and as it is digested (canonical).
//!
//! Strict: one value, no trailing bytes, no duplicate key at any depth, integers only, bounded
//! depth, nodes and strings (spec/control sections 0 and 3). Canonical: keys sorted by their
//! bytes, no spaces, the shortest escapes; `serde_json` writes exactly that for a [`Value`], whose
//! objects are sorted maps.

use super::limits;
use serde::de::{DeserializeOwned, DeserializeSeed, Error as _, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Value};
use std::cell::Cell;
use std::fmt;

/// Why a text was refused, in words that name the place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refused(pub String);

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Reads one strict JSON value.
pub fn parse(bytes: &[u8]) -> Result<Value, Refused> {
    let refused = |e: serde_json::Error| Refused(e.to_string());
    let nodes = Cell::new(0);
    let mut de = serde_json::Deserializer::from_slice(bytes);
    let value = Strict { depth: 0, nodes: &nodes }.deserialize(&mut de).map_err(refused)?;
    de.end().map_err(refused)?;
    Ok(value)
}

/// Reads one strict JSON value into an exact shape: unknown and missing fields are refused by the
/// type's own `deny_unknown_fields`, duplicates here.
pub fn parse_as<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, Refused> {
    serde_json::from_value(parse(bytes)?).map_err(|e| Refused(e.to_string()))
}

/// The canonical bytes of a value.
pub fn canonical(value: &Value) -> String {
    value.to_string()
}

struct Strict<'a> {
    depth: usize,
    nodes: &'a Cell<usize>,
}

impl Strict<'_> {
    fn inner(&self) -> Strict<'_> {
        Strict { depth: self.depth + 1, nodes: self.nodes }
    }
}

impl<'de> DeserializeSeed<'de> for Strict<'_> {
    type Value = Value;

    fn deserialize<D: serde::Deserializer<'de>>(self, de: D) -> Result<Value, D::Error> {
        if self.depth > limits::JSON_DEPTH_MAX {
            return Err(D::Error::custom(format_args!("nested deeper than {}", limits::JSON_DEPTH_MAX)));
        }
        self.nodes.set(self.nodes.get() + 1);
        if self.nodes.get() > limits::JSON_NODES_MAX {
            return Err(D::Error::custom(format_args!("more than {} values", limits::JSON_NODES_MAX)));
        }
        de.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Strict<'_> {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JSON without fractions")
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_bool<E>(self, v: bool) -> Result<Value, E> {
        Ok(Value::Bool(v))
    }

    fn visit_i64<E>(self, v: i64) -> Result<Value, E> {
        Ok(Value::from(v))
    }

    fn visit_u64<E>(self, v: u64) -> Result<Value, E> {
        Ok(Value::from(v))
    }

    fn visit_str<E: serde::de::Error>(self, v: &str) -> Result<Value, E> {
        if v.len() > limits::JSON_STRING_BYTES_MAX {
            return Err(E::custom(format_args!("a string longer than {} bytes", limits::JSON_STRING_BYTES_MAX)));
        }
        Ok(Value::from(v))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Value, A::Error> {
        let mut items = Vec::new();
        while let Some(item) = seq.next_element_seed(self.inner())? {
            items.push(item);
            if items.len() > limits::JSON_ENTRIES_MAX {
                return Err(A::Error::custom(format_args!("more than {} entries in a list", limits::JSON_ENTRIES_MAX)));
            }
        }
        Ok(Value::Array(items))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Value, A::Error> {
        let mut entries = Map::new();
        while let Some(key) = map.next_key::<String>()? {
            if key.len() > limits::JSON_STRING_BYTES_MAX {
                return Err(A::Error::custom("a key is too long"));
            }
            let value = map.next_value_seed(self.inner())?;
            if entries.contains_key(&key) {
                return Err(A::Error::custom(format_args!("duplicate field `{key}`")));
            }
            entries.insert(key, value);
            if entries.len() > limits::JSON_ENTRIES_MAX {
                return Err(A::Error::custom(format_args!(
                    "more than {} entries in an object",
                    limits::JSON_ENTRIES_MAX
                )));
            }
        }
        Ok(Value::Object(entries))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn strict_text_is_one_bounded_value_without_duplicates_or_fractions() {
        assert!(parse(br#" {"a":[1,-2,null,true,"x"],"b":{}} "#).is_ok());
        let deep = format!("{}1{}", "[".repeat(13), "]".repeat(13));
        let wide = format!("[{}1]", "1,".repeat(limits::JSON_ENTRIES_MAX));
        let long = format!("\"{}\"", "x".repeat(limits::JSON_STRING_BYTES_MAX + 1));
        for bad in [
            "",
            "{",
            "1.5",
            "1e3",
            "{}{}",
            "{} x",
            r#"{"a":1,"a":2}"#,
            r#"[{"x":{"a":1,"a":1}}]"#,
            "\"\u{1}\"",
            "[1,]",
            "NaN",
            &deep,
            &wide,
            &long,
        ] {
            assert!(parse(bad.as_bytes()).is_err(), "{bad:.60}");
        }
        assert!(parse(b"\"\xff\"").is_err(), "not UTF-8");
        assert!(parse(b"\xef\xbb\xbf{}").is_err(), "a byte order mark");
    }

    #[test]
    fn canonical_text_sorts_keys_and_has_no_spaces() {
        let value = parse(br#"{ "b": [1, {"z":0, "a":"\u00e9\n"}], "a": null }"#).unwrap();
        assert_eq!(canonical(&value), "{\"a\":null,\"b\":[1,{\"a\":\"é\\n\",\"z\":0}]}");
    }
}
