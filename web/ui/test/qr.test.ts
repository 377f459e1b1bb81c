// @vitest-environment jsdom
import { createElement } from 'react';
import { flushSync } from 'react-dom';
import { createRoot } from 'react-dom/client';
import { encode } from 'uqr';
import { expect, it } from 'vitest';
import { isURL } from '../src/shell/QRButton';
import QRCode from '../src/shell/QRCode';

it('draws a module for each black one, with a white border', () => {
  const url = 'http://192.0.2.1:8090/i/abcdefgh.iso';
  const place = document.createElement('div');
  flushSync(() => {
    createRoot(place).render(createElement(QRCode, { url }));
  });
  const { data, size } = encode(url, { ecc: 'M', border: 0 });
  const drawn = place.querySelector('path')?.getAttribute('d') ?? '';
  const points = [...drawn.matchAll(/M(\d+) (\d+)h1v1h-1z/g)].map(([, x, y]) => [Number(x) - 4, Number(y) - 4]);
  expect(points).toEqual(data.flatMap((row, y) => row.flatMap((isBlack, x) => (isBlack ? [[x, y]] : []))));
  const side = String(size + 8);
  expect(place.querySelector('svg')?.getAttribute('viewBox')).toBe(`0 0 ${side} ${side}`);
  expect(place.querySelector('svg')?.getAttribute('aria-label')).toBe(`QR code of ${url}`);
  expect(place.textContent).toBe(url);
});

it.each([
  ['http://192.0.2.1:8090', true],
  ['https://console.east.site.test/', true],
  ['curl -fsS http://192.0.2.1', false],
  ['mirror.site.test:5000', false],
])('%s is a URL: %s', (text, is) => {
  expect(isURL(text)).toBe(is);
});
