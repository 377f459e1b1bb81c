import { describe, expect, it } from 'vitest';
import { holdStyles } from '../src/uilib/monacoStyles';

describe('holdStyles', () => {
  it.each([
    [
      'an attribute of each element',
      '<div style="top:0px;" class="view-line"><span style="color:red">a</span></div>',
      '<div data-style="top:0px;" class="view-line"><span data-style="color:red">a</span></div>',
    ],
    ['text that looks like an attribute', '<span>a style="b"</span>', '<span>a style="b"</span>'],
    ['an escaped tag in a text', '<span>&lt;a style="b"&gt;</span>', '<span>&lt;a style="b"&gt;</span>'],
    ['no element', 'a style="b"', 'a style="b"'],
  ])('%s', (_case, html, want) => {
    expect(holdStyles(html)).toBe(want);
  });
});
