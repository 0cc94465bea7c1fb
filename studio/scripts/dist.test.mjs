// What a build is: small, with nothing inline and nothing from another host, and files that say their content in their name.
import { mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { gzipSync } from 'node:zlib';
import { build } from 'vite';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';

describe('a build', () => {
  const dist = mkdtempSync(join(tmpdir(), 'legation-dist-'));
  let html = '';
  let assets = [];
  beforeAll(async () => {
    // The test runner says `test`, and React would be built for it.
    process.env.NODE_ENV = 'production';
    await build({ logLevel: 'error', build: { outDir: dist, emptyOutDir: true } });
    html = readFileSync(join(dist, 'index.html'), 'utf8');
    assets = readdirSync(join(dist, 'assets')).map((name) => `assets/${name}`);
  }, 120_000);
  afterAll(() => {
    process.env.NODE_ENV = 'test';
    rmSync(dist, { recursive: true, force: true });
  });

  const bytes = (names) => names.reduce((sum, name) => sum + gzipSync(readFileSync(join(dist, name))).length, 0);

  it('loads at most 200 kB at first and 900 kB in all, gzipped', () => {
    // The entry, its static imports and the style sheets all stand in the page.
    const named = [...html.matchAll(/(?:src|href)="\/(assets\/[^"]+)"/g)].map((match) => match[1] ?? '');
    const first = new Set(named);
    for (const name of first) if (name.endsWith('.js')) for (const match of imports(readFileSync(join(dist, name), 'utf8'))) first.add(`assets/${match}`);
    expect(first.size).toBeGreaterThan(1);
    expect(bytes(['index.html', ...first])).toBeLessThanOrEqual(200_000);
    expect(bytes(['index.html', ...assets])).toBeLessThanOrEqual(900_000);
  });

  it('leaves the diagram, the editor and the forms for when they are wanted', () => {
    for (const name of ['Viewer', 'Source', 'Process', 'Instance']) {
      const file = assets.find((one) => one.startsWith(`assets/${name}-`) && one.endsWith('.js'));
      expect(file, name).toBeDefined();
      expect(html).not.toContain(file);
    }
    // By words of theirs, as a part is named after the file that it begins with.
    const entry = [...html.matchAll(/src="\/(assets\/[^"]+\.js)"/g)].map((match) => match[1] ?? '');
    const first = [...entry, ...entry.flatMap((name) => imports(readFileSync(join(dist, name), 'utf8')).map((one) => `assets/${one}`))];
    for (const words of ['BPMNDiagram_', 'djs-container', 'cm-editor', 'is needed']) {
      const holders = assets.filter((name) => name.endsWith('.js') && readFileSync(join(dist, name), 'utf8').includes(words));
      expect(holders.length, words).toBeGreaterThan(0);
      for (const holder of holders) expect(first, words).not.toContain(holder);
    }
  });

  it('has no inline script or style and names no other host', () => {
    expect(html).not.toMatch(/<script(?![^>]*\bsrc=)[^>]*>/);
    expect(html).not.toMatch(/<style|\son\w+=|style="/);
    expect(html).not.toMatch(/(?:src|href)="(?:https?:)?\/\//);
    for (const name of assets.filter((one) => one.endsWith('.css'))) expect(readFileSync(join(dist, name), 'utf8'), name).not.toMatch(/@import|url\((?!['"]?(?:data:|\/assets\/|\.))/);
    for (const name of assets) expect(name).toMatch(/-[\w-]{8}\.(js|css|woff2|svg|png)$/);
  });
});

/** The files that a built one needs before it runs. */
function imports(text) {
  return [...text.matchAll(/(?:import|export)(?:[\w*\s{},$]*from)?\s*["']\.\/([\w.-]+\.js)["']/g)].map((match) => match[1] ?? '');
}
