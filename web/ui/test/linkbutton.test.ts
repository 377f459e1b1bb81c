// @vitest-environment jsdom
import { createElement } from 'react';
import { flushSync } from 'react-dom';
import { createRoot } from 'react-dom/client';
import { MemoryRouter } from 'react-router-dom-v5-compat';
import { expect, it } from 'vitest';
import { LinkButton } from '../src/shell/LinkButton';

it('keeps the link, with its focus, when the page is rendered again', () => {
  const place = document.createElement('div');
  document.body.append(place);
  const root = createRoot(place);
  const render = (text: string) => {
    flushSync(() => {
      root.render(createElement(MemoryRouter, null, createElement(LinkButton, { to: '/mirror' }, text)));
    });
  };
  render('To do');
  const link = place.querySelector('a');
  expect(link?.getAttribute('href')).toBe('/mirror');
  link?.focus();
  render('Done');
  expect(place.querySelector('a')).toBe(link);
  expect(document.activeElement).toBe(link);
  expect(link?.textContent).toBe('Done');
});
