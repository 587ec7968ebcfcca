// Numbers as people read them, the same as the command line prints them
// (crates/write/src/document/units.rs): whole numbers until the last step.

import type { Unit } from "../server/protocol";

type Scale = readonly (readonly [unit: string, size: number])[];

const TIME_UNITS: Scale = [
  ["ns", 1],
  ["µs", 1_000],
  ["ms", 1_000_000],
  ["s", 1_000_000_000],
];

const BYTE_UNITS: Scale = [
  ["B", 1],
  ["KiB", 2 ** 10],
  ["MiB", 2 ** 20],
  ["GiB", 2 ** 30],
  ["TiB", 2 ** 40],
];

/** "1.235 ms", "870 ns": the largest unit that leaves a whole part. */
export function nanosText(ns: number): string {
  return scaled(ns, TIME_UNITS, 3);
}

/** "12.3 MiB". */
export function bytesText(bytes: number): string {
  return scaled(bytes, BYTE_UNITS, 1);
}

/** "1,234,567". */
export function countText(count: number): string {
  const digits = Math.abs(Math.round(count)).toString();
  const grouped = digits.replace(/\B(?=(\d{3})+$)/g, ",");
  return count < 0 ? `-${grouped}` : grouped;
}

/** "12.3 %" of a share of 1. */
export function shareText(share: number): string {
  return `${(share * 100).toFixed(1)} %`;
}

/** A number of unknown meaning: short, and never in exponents where a person would not. */
export function numberText(value: number): string {
  if (Number.isInteger(value)) return countText(value);
  const size = Math.abs(value);
  if (size >= 1000) return countText(value);
  return size < 0.001 ? value.toExponential(2) : value.toPrecision(4).replace(/\.?0+$/, "");
}

/** An amount by its unit. */
export function amountText(value: number, unit: Unit): string {
  switch (unit) {
    case "nanos":
      return nanosText(value);
    case "bytes":
      return bytesText(value);
    case "count":
      return countText(value);
    case "share":
      return shareText(value);
    default:
      return numberText(value);
  }
}

/** "812.34567 ms": a time with just the digits that distinguish ticks `step` apart. */
export function tickText(ns: number, step: number): string {
  if (ns === 0) return "0";
  const [unit, size] =
    TIME_UNITS.findLast(([, size]) => Math.abs(ns) >= size) ?? (["ns", 1] as const);
  const decimals = Math.max(0, Math.ceil(Math.log10(size / step) - 1e-9));
  return `${(ns / size).toFixed(decimals)} ${unit}`;
}

function scaled(value: number, units: Scale, decimals: number): string {
  let text = "";
  for (const [at, [unit, size]] of units.entries()) {
    // The smallest unit is whole.
    const digits = at === 0 ? 0 : decimals;
    const amount = rounded(value, size, digits);
    text = `${decimalText(amount, digits)} ${unit}`;
    const next = units[at + 1];
    if (next === undefined) break;
    // Rounding may reach the next unit: 999.9996 µs is 1.000 ms.
    const whole = magnitude(amount) / 10n ** BigInt(digits);
    if (whole < BigInt(next[1] / size)) break;
  }
  return text;
}

/** `value / size` in units of `10^-decimals`, half away from zero. */
function rounded(value: number, size: number, decimals: number): bigint {
  const whole = BigInt(Math.round(value));
  const scaledUp = magnitude(whole) * 10n ** BigInt(decimals);
  const divisor = BigInt(size);
  const up = (scaledUp % divisor) * 2n >= divisor ? 1n : 0n;
  const amount = scaledUp / divisor + up;
  return whole < 0n ? -amount : amount;
}

function decimalText(amount: bigint, decimals: number): string {
  if (decimals === 0) return amount.toString();
  const digits = magnitude(amount).toString().padStart(decimals + 1, "0");
  const sign = amount < 0n ? "-" : "";
  return `${sign}${digits.slice(0, -decimals)}.${digits.slice(-decimals)}`;
}

function magnitude(value: bigint): bigint {
  return value < 0n ? -value : value;
}
