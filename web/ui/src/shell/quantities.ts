const units = ['bytes', 'KiB', 'MiB', 'GiB', 'TiB'];

/**
 * Formats bytes in the largest unit with a nonzero integer part: "1.2 GiB", "6.5 MiB", "512 bytes".
 */
export const bytes = (count: number): string => {
  let value = count;
  let unit = 0;
  while (value >= 1024 && unit < units.length - 1) {
    value /= 1024;
    unit += 1;
  }
  return `${unit === 0 ? String(Math.round(value)) : value.toFixed(1)} ${units[unit] ?? ''}`;
};

/** Formats bytes with the exact count: "1.2 GiB (1,288,490,189 bytes)". */
export const exactBytes = (count: number): string =>
  count < 1024 ? bytes(count) : `${bytes(count)} (${count.toLocaleString('en')} bytes)`;

/** Formats a duration in its two largest units: "3 s", "4 min 10 s", "2 h 5 min", "3 d 4 h". */
export const duration = (seconds: number): string => {
  const whole = Math.max(0, Math.round(seconds));
  const parts: [number, string][] = [
    [Math.floor(whole / 86_400), 'd'],
    [Math.floor((whole % 86_400) / 3_600), 'h'],
    [Math.floor((whole % 3_600) / 60), 'min'],
    [whole % 60, 's'],
  ];
  const first = parts.findIndex(([count]) => count > 0);
  if (first < 0) {
    return '0 s';
  }
  return parts
    .slice(first, first + 2)
    .filter(([count]) => count > 0)
    .map(([count, unit]) => `${String(count)} ${unit}`)
    .join(' ');
};

const moments = new Intl.DateTimeFormat('default', { dateStyle: 'medium', timeStyle: 'short' });

/** Formats a time in the browser's time zone and language; "" if the text is not a time. */
export const moment = (time: string): string => {
  const at = new Date(time);
  return Number.isNaN(at.getTime()) ? '' : moments.format(at);
};

/** The share of a whole in percent; 0 if the whole is unknown. */
export const percentOf = (part: number, whole: number): number =>
  whole > 0 ? Math.min(100, Math.max(0, (100 * part) / whole)) : 0;

/**
 * Makes a sentence of a reason from the API: with a capital letter and a full stop. A name of a
 * file, image, host or program at the beginning stays as it is, such as rules.yaml and host-1.
 */
export const asSentence = (reason: string): string => {
  const first = (/^\S*/.exec(reason)?.[0] ?? '').replace(/[,.;:!?]+$/, '');
  const isName = /[^\p{L}'’]/u.test(first);
  const start = isName ? reason.charAt(0) : reason.charAt(0).toUpperCase();
  return reason === '' ? '' : `${start}${reason.slice(1)}${/[.!?]$/.test(reason) ? '' : '.'}`;
};
