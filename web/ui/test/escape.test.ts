// @vitest-environment jsdom
import { expect, it } from 'vitest';
import { guardEscape } from '../src/shell/escape';

it('Escape closes an open list of a dialog, and the dialog afterwards', () => {
  document.body.innerHTML = '<div role="dialog"><button class="menu-toggle" aria-expanded="true">List</button></div>';
  const toggle = document.querySelector('button');
  toggle?.addEventListener('click', () => {
    toggle.setAttribute('aria-expanded', 'false');
  });
  let closed = 0;
  document.addEventListener('keydown', () => {
    closed += 1;
  });
  guardEscape(window);
  const press = () => {
    document.body.dispatchEvent(new KeyboardEvent('keydown', { key: 'Escape', bubbles: true }));
  };
  press();
  expect(closed).toBe(0);
  expect(toggle?.getAttribute('aria-expanded')).toBe('false');
  expect(document.activeElement).toBe(toggle);
  press();
  expect(closed).toBe(1);
});
