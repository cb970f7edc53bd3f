//! Types that files hold as the text that people write.

/// Makes `String` of a type and the other way round by its `Display` and `FromStr`, for `#[serde(try_from = "String", into =
/// "String")]`.
macro_rules! as_text {
    ($type:ty) => {
        impl TryFrom<String> for $type {
            type Error = <$type as std::str::FromStr>::Err;

            fn try_from(text: String) -> Result<Self, Self::Error> {
                text.parse()
            }
        }

        impl From<$type> for String {
            fn from(value: $type) -> Self {
                value.to_string()
            }
        }
    };
}

pub(super) use as_text;
