import type { Overview } from './api';
import { statesOf, wordOf } from './words';

const quoted = (value: string | number): string => {
  const text = String(value);
  // A spreadsheet would run a text that begins like a formula.
  const safe = /^[=+\-@]/.test(text) ? `'${text}` : text;
  return /[",\n\r]/.test(safe) ? `"${safe.replaceAll('"', '""')}"` : safe;
};

/** The overview as a table for spreadsheets (RFC 4180). */
export const asCSV = (overview: Overview): string => {
  const rows: (string | number)[][] = [['section', 'name', 'value', 'details']];
  for (const [noun, counts] of [
    ['cluster', overview.clusters],
    ['host', overview.hosts],
  ] as const) {
    for (const { text, count } of statesOf(noun, counts)) {
      rows.push([`${noun}s`, text, count, '']);
    }
  }
  for (const { name, percent, openshift_version: version } of overview.installations) {
    rows.push(['installation', name, `${String(percent)} %`, `OpenShift ${version}`]);
  }
  for (const item of overview.attention) {
    rows.push([item.kind, item.name, wordOf(item).text, item.status_info]);
  }
  rows.push(['disk', 'free', overview.disk.free_bytes, 'bytes'], ['disk', 'total', overview.disk.total_bytes, 'bytes']);
  return rows.map((row) => `${row.map(quoted).join(',')}\r\n`).join('');
};
