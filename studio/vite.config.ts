import react from '@vitejs/plugin-react';
import { defineConfig } from 'vite';

const engine = process.env.LEGATION_URL ?? 'http://127.0.0.1:8700';

export default defineConfig({
  plugins: [react()],
  // The policy of the engine allows no inline script, and images only from itself or as data.
  build: { target: 'es2022', assetsInlineLimit: 0, modulePreload: { polyfill: false }, sourcemap: false },
  server: { port: 5173, proxy: { '/v1': engine } },
});
