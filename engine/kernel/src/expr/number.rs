//! Decimal arithmetic of 28 significant digits, rounded half to even exactly once. Our own because the decimal
//! type keeps a 29th digit when it fits, which the JSON reader would refuse, and rounds before we could.

use rust_decimal::Decimal;

const TEN_28: u128 = 10_u128.pow(28);
const TEN_27: u128 = 10_u128.pow(27);
const MAX_SCALE: u32 = 28;

/// The sum; nothing when it is outside 28 digits.
#[must_use]
pub fn add(a: Decimal, b: Decimal) -> Option<Decimal> {
    let scale = a.scale().max(b.scale());
    let left = Wide::product(a.mantissa().unsigned_abs(), 10_u128.pow(scale - a.scale()));
    let right = Wide::product(b.mantissa().unsigned_abs(), 10_u128.pow(scale - b.scale()));
    let (a_negative, b_negative) = (a.is_sign_negative(), b.is_sign_negative());
    if a_negative == b_negative {
        return left.plus(&right).rounded(scale, a_negative);
    }
    match left.minus(&right) {
        Some(rest) => rest.rounded(scale, a_negative),
        None => right.minus(&left)?.rounded(scale, b_negative),
    }
}

/// The product; nothing when it is outside 28 digits.
#[must_use]
pub fn multiply(a: Decimal, b: Decimal) -> Option<Decimal> {
    let product = Wide::product(a.mantissa().unsigned_abs(), b.mantissa().unsigned_abs());
    product.rounded(
        a.scale() + b.scale(),
        a.is_sign_negative() != b.is_sign_negative(),
    )
}

/// The quotient; nothing when it is outside 28 digits or the divisor is zero.
#[must_use]
pub fn divide(a: Decimal, b: Decimal) -> Option<Decimal> {
    let divisor = b.mantissa().unsigned_abs();
    if divisor == 0 {
        return None;
    }
    let dividend = a.mantissa().unsigned_abs();
    let (mut quotient, mut rest) = (dividend / divisor, dividend % divisor);
    let mut scale = i64::from(a.scale()) - i64::from(b.scale());
    // Long division: one digit a round, until it is exact or 28 digits are there.
    while scale < 0 || (rest != 0 && quotient < TEN_27 && scale < i64::from(MAX_SCALE)) {
        if quotient >= TEN_28 {
            return None;
        }
        quotient = quotient * 10 + rest * 10 / divisor;
        rest = rest * 10 % divisor;
        scale += 1;
    }
    if rest * 2 > divisor || (rest * 2 == divisor && quotient % 2 == 1) {
        quotient += 1;
    }
    let negative = a.is_sign_negative() != b.is_sign_negative();
    Wide::product(quotient, 1).rounded(u32::try_from(scale).ok()?, negative)
}

/// An unsigned number of 256 bits, low limb first: enough for the exact sum or product of two decimals.
struct Wide([u64; 4]);

impl Wide {
    /// Both factors are below 2^97, so nothing is lost.
    fn product(a: u128, b: u128) -> Self {
        let halves = |number: u128| [number & u128::from(u64::MAX), number >> 64];
        let mut limbs = [0_u64; 4];
        for (i, x) in halves(a).into_iter().enumerate() {
            let mut carry = 0_u128;
            for (j, y) in halves(b).into_iter().enumerate() {
                let sum = x * y + u128::from(limbs[i + j]) + carry;
                limbs[i + j] = low(sum);
                carry = sum >> 64;
            }
            limbs[i + 2] = low(carry);
        }
        Self(limbs)
    }

    fn plus(&self, other: &Self) -> Self {
        let mut limbs = [0; 4];
        let mut carry = 0_u128;
        for (index, limb) in limbs.iter_mut().enumerate() {
            let sum = u128::from(self.0[index]) + u128::from(other.0[index]) + carry;
            *limb = low(sum);
            carry = sum >> 64;
        }
        Self(limbs)
    }

    /// Nothing when the other is larger.
    fn minus(&self, other: &Self) -> Option<Self> {
        let mut limbs = [0; 4];
        let mut borrow = false;
        for (index, limb) in limbs.iter_mut().enumerate() {
            let (first, under) = self.0[index].overflowing_sub(other.0[index]);
            let (second, again) = first.overflowing_sub(u64::from(borrow));
            *limb = second;
            borrow = under || again;
        }
        if borrow { None } else { Some(Self(limbs)) }
    }

    /// Divides by ten and returns the digit that fell off.
    fn drop_digit(&mut self) -> u64 {
        let mut rest = 0_u128;
        for limb in self.0.iter_mut().rev() {
            let here = (rest << 64) | u128::from(*limb);
            *limb = low(here / 10);
            rest = here % 10;
        }
        low(rest)
    }

    /// The number, when it has at most 28 digits.
    fn narrow(&self) -> Option<u128> {
        let small = u128::from(self.0[0]) | (u128::from(self.0[1]) << 64);
        if self.0[2] == 0 && self.0[3] == 0 && small < TEN_28 {
            Some(small)
        } else {
            None
        }
    }

    /// `self / 10^scale` in 28 digits, half to even; nothing when its whole part needs more.
    fn rounded(mut self, mut scale: u32, negative: bool) -> Option<Decimal> {
        let (mut dropped, mut below) = (0, false);
        while scale > MAX_SCALE || self.narrow().is_none() {
            scale = scale.checked_sub(1)?;
            below |= dropped != 0;
            dropped = self.drop_digit();
        }
        let mut digits = self.narrow()?;
        if dropped > 5 || (dropped == 5 && (below || digits % 2 == 1)) {
            digits += 1;
        }
        if digits == TEN_28 {
            digits = TEN_27;
            scale = scale.checked_sub(1)?;
        }
        let signed = i128::try_from(digits).ok()?;
        let number =
            Decimal::try_from_i128_with_scale(if negative { -signed } else { signed }, scale).ok()?;
        Some(number.normalize())
    }
}

#[expect(clippy::cast_possible_truncation, reason = "the low limb is what is wanted")]
fn low(number: u128) -> u64 {
    number as u64
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests stop at the first surprise")]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn small() -> impl Strategy<Value = Decimal> {
        (-10_i128.pow(13)..10_i128.pow(13), 0_u32..=13)
            .prop_map(|(n, scale)| Decimal::from_i128_with_scale(n, scale))
    }

    fn any_number() -> impl Strategy<Value = Decimal> {
        let digits = 10_i128.pow(28) - 1;
        (-digits..=digits, 0_u32..=28).prop_map(|(n, scale)| Decimal::from_i128_with_scale(n, scale))
    }

    fn significant(number: Decimal) -> usize {
        number.normalize().mantissa().unsigned_abs().to_string().len()
    }

    proptest! {
        #[test]
        fn exact_results_agree_with_the_decimal_type(a in small(), b in small()) {
            prop_assert_eq!(add(a, b), Some(a + b));
            prop_assert_eq!(multiply(a, b), Some(a * b));
            if !b.is_zero() {
                prop_assert_eq!(divide(multiply(a, b).unwrap(), b), Some(a));
            }
        }

        #[test]
        fn results_keep_28_digits_and_order_of_operands_is_free(a in any_number(), b in any_number()) {
            for result in [add(a, b), multiply(a, b), divide(a, b)].into_iter().flatten() {
                prop_assert!(significant(result) <= 28);
            }
            prop_assert_eq!(add(a, b), add(b, a));
            prop_assert_eq!(multiply(a, b), multiply(b, a));
            prop_assert_eq!(add(a, -a), Some(Decimal::ZERO));
        }

        #[test]
        fn a_quotient_is_the_nearest_of_its_digits(a in 1_u64..1_000_000, b in 1_u64..1_000_000) {
            let quotient = divide(Decimal::from(a), Decimal::from(b)).unwrap();
            // quotient = m / 10^s; the error |a·10^s - m·b| is at most half a unit of the last digit: b / 2.
            let scale = quotient.scale();
            let exact = Wide::product(u128::from(a), 10_u128.pow(scale));
            let back = Wide::product(quotient.mantissa().unsigned_abs(), u128::from(b));
            let error = exact.minus(&back).or_else(|| back.minus(&exact)).unwrap().narrow().unwrap();
            prop_assert!(error == 0 || (error * 2 <= u128::from(b) && scale > 0));
        }
    }

    #[test]
    fn ties_go_to_the_even_digit() {
        let number = |text: &str| text.parse::<Decimal>().unwrap();
        // 28 digits and a half of the last: 1…1.5 and 1…2.5.
        let odd = number("1111111111111111111111111111");
        assert_eq!(
            add(odd, number("0.5")),
            Some(number("1111111111111111111111111112"))
        );
        let even = number("1111111111111111111111111112");
        assert_eq!(add(even, number("0.5")), Some(even));
        assert_eq!(
            add(even, number("0.5000000000000000000000000001")),
            Some(number("1111111111111111111111111113"))
        );
        assert_eq!(add(even, number("-0.5")), Some(even));
    }
}
