// A program that records itself into a session while it runs: this one. Writes what
// docs/reference/formats/session.md describes, a group of records at a time.

import { appendFileSync, writeFileSync } from "node:fs";

const [PROCESS, CLOCK, SITE, THREAD, RECORDS, END] = [1, 2, 3, 4, 5, 6];
const WORD = (1n << 64n) - 1n;

export class Recorder {
  #path;
  #records = 0;

  constructor(path) {
    this.#path = path;
    writeFileSync(path, "SPANSES1");
    this.#chunk(PROCESS, u32(process.pid), text("recorder"), text(""));
    this.#clock();
    this.#chunk(SITE, u32(0), u32(0), u32(1), text("step"), text("recorder.mjs"));
    this.#chunk(THREAD, u32(0), u64(1n), text("main"));
  }

  /** Records so many spans that end now, each a thousandth of a second long. */
  work(count) {
    const now = process.hrtime.bigint();
    const spans = Array.from({ length: count }, (_, at) => {
      const end = now - BigInt(count - 1 - at) * 1_000_000n;
      return Buffer.concat([u64(end - 900_000n), u64(end), u64(0n)]);
    });
    this.#clock();
    this.#chunk(RECORDS, u32(0), u64(0n), ...spans);
    this.#records += count;
  }

  end() {
    this.#clock();
    this.#chunk(END, u64(BigInt(this.#records)), u64(0n));
  }

  #clock() {
    const now = process.hrtime.bigint();
    this.#chunk(CLOCK, u64(now), u64(now), u64(BigInt(Date.now()) * 1_000_000n));
  }

  #chunk(kind, ...parts) {
    const body = Buffer.concat(parts);
    appendFileSync(this.#path, Buffer.concat([u32(kind), u32(body.length), u64(checkOf(body)), body]));
  }
}

function u32(value) {
  const bytes = Buffer.alloc(4);
  bytes.writeUInt32LE(value);
  return bytes;
}

function u64(value) {
  const bytes = Buffer.alloc(8);
  bytes.writeBigUInt64LE(value);
  return bytes;
}

function text(value) {
  return Buffer.concat([u32(Buffer.byteLength(value)), Buffer.from(value)]);
}

/** FNV-1a over words of eight bytes. */
function checkOf(body) {
  const padded = Buffer.concat([body, Buffer.alloc((8 - (body.length % 8)) % 8)]);
  let check = 0xcbf29ce484222325n;
  for (let at = 0; at < padded.length; at += 8) {
    check = ((check ^ padded.readBigUInt64LE(at)) * 0x100000001b3n) & WORD;
  }
  return check;
}
