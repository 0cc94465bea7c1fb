import { defineConfig } from 'vitest/config';

export default defineConfig({ test: { include: ['src/**/*.test.ts', 'scripts/*.test.mjs'], testTimeout: 10_000 } });
