//! The text of a configuration: what is wrong is said in one short line, and what is taken comes to settings
//! within their bounds, which the same text, read again, does not change.

use qinglet::model::config::{Config, parse};
use qinglet::model::setting_limit::SettingLimit;
use qinglet::model::settings::Settings;

pub fn run(data: &[u8]) {
    let config = match parse(data) {
        Ok(config) => config,
        Err(error) => return one_line(&error.to_string()),
    };
    assert_eq!(parse(data).as_ref(), Ok(&config));
    for path in [&config.state, &config.logs, &config.runtime].into_iter().flatten() {
        assert!(path.is_absolute());
    }
    let nothing = Config::default();
    let settings = match Settings::resolve(&nothing, &config) {
        Ok(settings) => settings,
        Err(sentence) => return one_line(&sentence),
    };
    let limits = settings.limits();
    for limit in SettingLimit::ALL {
        let (least, most) = limit.range(settings.profile.value);
        assert!((least..=most).contains(&limit.of(&limits)), "{}", limit.key());
    }
    let again = settings.reload(&nothing, &config).expect("it was taken before");
    assert!(again.changed.is_empty() && again.needs_restart.is_empty());
    assert_eq!(again.settings, settings);
    // As flags the same text wins over any file.
    let flags = Settings::resolve(&config, &nothing).expect("the same values");
    assert_eq!(flags.limits(), limits);
}

fn one_line(text: &str) {
    assert!(!text.is_empty() && text.len() < 400 && !text.chars().any(char::is_control), "{text:?}");
}
