import reactHooks from 'eslint-plugin-react-hooks';
import tseslint from 'typescript-eslint';

// Ends code at 120 columns and comments at 100.
const maxLength = ['error', { code: 120, comments: 100, tabWidth: 4 }];

export default tseslint.config(
  { ignores: ['node_modules', 'test-results'] },
  {
    files: ['src/**/*.{ts,tsx}', 'test/**/*.ts', 'build/**/*.ts', 'vite.config.ts', 'vitest.config.ts'],
    extends: [tseslint.configs.strictTypeChecked, tseslint.configs.stylisticTypeChecked],
    languageOptions: { parserOptions: { project: './tsconfig.json' } },
    plugins: { 'react-hooks': reactHooks },
    rules: {
      ...reactHooks.configs.recommended.rules,
      'max-len': maxLength,
      '@typescript-eslint/consistent-type-definitions': ['error', 'type'],
    },
  },
  {
    files: ['e2e/**/*.mjs', 'eslint.config.js'],
    extends: [tseslint.configs.base],
    languageOptions: { sourceType: 'module' },
    rules: {
      'max-len': maxLength,
      'no-unused-vars': 'error',
      'no-undef': 'off',
      eqeqeq: 'error',
      'prefer-const': 'error',
    },
  },
);
