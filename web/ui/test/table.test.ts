// @vitest-environment jsdom
import { createElement } from 'react';
import { expect, it } from 'vitest';
import { usePages } from '../src/shell/table';
import { button, press, show } from './screen';

const Table = () => {
  const { shown, control } = usePages(['a', 'b', 'c'], 2, 'Pages of rows');
  return createElement('div', null, createElement('p', null, shown.join()), control);
};

it('other pages can be reached in a narrow window too', () => {
  const close = show(createElement(Table));
  // PatternFly hides the buttons in windows of less than 768 pixels without this class.
  expect(button('Go to next page').closest('.pf-m-display-full')).not.toBeNull();
  press('Go to next page');
  expect(document.querySelector('p')?.textContent).toBe('c');
  close();
});
