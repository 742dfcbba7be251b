//! Integers that survive every JSON implementation, compared by value and not by spelling.

use serde_json::Number;

/// The largest integer that a double holds together with all below it: 2^53 - 1.
const BOUND: i64 = (1 << 53) - 1;

/// An integer within plus or minus 2^53 - 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Integer(i64);

impl Integer {
    pub(super) fn value(self) -> i64 {
        self.0
    }

    fn within(value: i64) -> Option<Self> {
        (-BOUND..=BOUND).contains(&value).then_some(Self(value))
    }

    /// `42` and `42.0` are the same integer.
    pub(super) fn of(number: &Number) -> Option<Self> {
        if let Some(value) = number.as_i64() {
            return Self::within(value);
        }
        let float = number.as_f64()?;
        if float.fract() != 0.0 || float.abs() > BOUND as f64 {
            return None;
        }
        Self::within(float as i64)
    }

    /// Reads a JSON number exactly: a double would take 42.00000000000000000001 for 42.
    pub(super) fn parse(text: &str) -> Option<Self> {
        let (sign, magnitude) = match text.strip_prefix('-') {
            Some(rest) => (-1, rest),
            None => (1, text),
        };
        let (mantissa, exponent) = match magnitude.split_once(['e', 'E']) {
            Some((mantissa, exponent)) => (mantissa, exponent_of(exponent)?),
            None => (magnitude, 0),
        };
        let (whole, fraction) = match mantissa.split_once('.') {
            Some((whole, fraction)) if !fraction.is_empty() => (whole, fraction),
            Some(_) => return None,
            None => (mantissa, ""),
        };
        let leading_zero = whole.len() > 1 && whole.starts_with('0');
        if whole.is_empty() || leading_zero || !is_digits(whole) || !is_digits(fraction) {
            return None;
        }
        let digits = format!("{whole}{fraction}");
        let significant = digits.trim_end_matches('0');
        let trimmed = i64::try_from(digits.len() - significant.len()).ok()?;
        let scale = exponent - i64::try_from(fraction.len()).ok()? + trimmed;
        let significant = significant.trim_start_matches('0');
        if significant.is_empty() {
            return Some(Self(0));
        }
        // A negative scale is a fraction; sixteen digits are as many as the bound has.
        let scale = u32::try_from(scale).ok().filter(|scale| *scale < 16)?;
        let value = significant.parse::<i64>().ok()?.checked_mul(10_i64.pow(scale))?;
        Self::within(sign * value)
    }
}

/// Exponents beyond four digits are beyond every bound here.
fn exponent_of(text: &str) -> Option<i64> {
    let digits = text.strip_prefix(['+', '-']).unwrap_or(text);
    if digits.is_empty() || digits.len() > 4 || !is_digits(digits) {
        return None;
    }
    text.parse().ok()
}

fn is_digits(text: &str) -> bool {
    text.bytes().all(|b| b.is_ascii_digit())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// XMH-16: integers are compared numerically.
    #[test]
    fn parse_reads_json_numbers_exactly() {
        let table = [
            ("42", Some(42)),
            ("-42", Some(-42)),
            ("42.0", Some(42)),
            ("42.000000000000000000000", Some(42)),
            ("4.2e1", Some(42)),
            ("4200E-2", Some(42)),
            ("42e+0", Some(42)),
            ("0", Some(0)),
            ("-0.0", Some(0)),
            ("0e9999", Some(0)),
            ("42.00000000000000000001", None),
            ("42.5", None),
            ("42e-1", None),
            ("042", None),
            ("+42", None),
            ("42.", None),
            (".5", None),
            ("1e", None),
            ("1e99999", None),
            ("0x2a", None),
            ("NaN", None),
            ("", None),
            ("-", None),
            (" 42", None),
            ("4 2", None),
            ("٤٢", None),
        ];
        for (text, want) in table {
            assert_eq!(Integer::parse(text).map(Integer::value), want, "{text:?}");
        }
    }

    /// XMH-5: within plus or minus 2^53 - 1.
    #[test]
    fn integers_end_at_two_to_the_53_less_one() {
        for (text, fits) in [
            ("9007199254740991", true),
            ("-9007199254740991", true),
            ("9007199254740991.0", true),
            ("9007199254740992", false),
            ("-9007199254740992", false),
            ("9007199254740992.0", false),
            ("9223372036854775808", false),
            ("1e300", false),
        ] {
            let number: Number = serde_json::from_str(text).unwrap();
            assert_eq!(Integer::of(&number).is_some(), fits, "{text} in a body");
            assert_eq!(Integer::parse(text).is_some(), fits, "{text} in a header");
        }
    }

    proptest! {
        #[test]
        fn parse_reads_what_is_spelled(value in -BOUND..=BOUND) {
            prop_assert_eq!(Integer::parse(&value.to_string()), Some(Integer(value)));
            prop_assert_eq!(Integer::parse(&format!("{value}.00")), Some(Integer(value)));
            prop_assert_eq!(Integer::of(&Number::from(value)), Some(Integer(value)));
        }

        #[test]
        fn parse_never_panics(text in "-?[0-9]{0,40}(\\.[0-9]{0,40})?([eE][+-]?[0-9]{0,6})?") {
            let _ = Integer::parse(&text);
        }
    }
}
