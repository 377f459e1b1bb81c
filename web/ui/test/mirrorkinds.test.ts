import { expect, it } from 'vitest';
import { kindsOf } from '../src/mirror/kinds';

const hole = (kind: string, prefix: string, grave = false) => ({ kind, prefix, text: `${kind} of ${prefix}`, grave });

it('groups warnings about the rules by their kind, errors first', () => {
  const [first, second, slow, grave] = [hole('tls', 'a'), hole('tls', 'b'), hole('slow', 'a'), hole('tls', 'c', true)];
  expect(kindsOf([first, slow, second, grave])).toEqual([[grave], [first, second], [slow]]);
  expect(kindsOf([])).toEqual([]);
});
