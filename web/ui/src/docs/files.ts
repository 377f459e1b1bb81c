/**
 * The documents of `landfall docs`, and the README. They are bundled as Markdown, and loaded with
 * the page that shows them.
 */
export const files: Record<string, string> = import.meta.glob<string>(
  [
    '../../../../docs/*.md',
    '!../../../../docs/{architecture,cli,compatibility,design,equality,page,performance,testing}.md',
    '../../../../README.md',
  ],
  { query: '?raw', import: 'default', eager: true },
);
