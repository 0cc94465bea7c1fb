// Figures as they are shown.

const exact = new Intl.NumberFormat('en');

/** `1,234`, and `10,000+` where the engine stopped counting. */
export function amount(count: number, atLeast = false): string {
  return exact.format(count) + (atLeast ? '+' : '');
}

/** A share as `0`, `12%`, or `<1%`, so that a failure is never rounded to none. */
export function share(part: number, all: number): string {
  if (part === 0 || all === 0) return '0';
  const percent = (part / all) * 100;
  return percent < 1 ? '<1%' : `${Math.round(percent)}%`;
}
