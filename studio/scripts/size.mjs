// `npm run size`: what a first visit loads, and everything; fails past the limits.
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { gzipSync } from 'node:zlib';

const dist = new URL('../dist/', import.meta.url).pathname;
const size = (name) => gzipSync(readFileSync(join(dist, name))).length;
const html = readFileSync(join(dist, 'index.html'), 'utf8');
const first = ['index.html', ...[...html.matchAll(/(?:src|href)="\/(assets\/[^"]+)"/g)].map((match) => match[1])];
const all = ['index.html', ...readdirSync(join(dist, 'assets')).map((name) => `assets/${name}`)];
const sum = (names) => names.reduce((total, name) => total + size(name), 0);
const limits = [['first load', sum(first), 200_000], ['everything', sum(all), 900_000]];
for (const [what, bytes, limit] of limits) console.log(`${what}: ${(bytes / 1000).toFixed(0)} kB gzip of ${limit / 1000}`);
process.exit(limits.some(([, bytes, limit]) => bytes > limit) ? 1 : 0);
