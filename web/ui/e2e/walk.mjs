// A walk: steps that depend on each other.

import assert from 'node:assert/strict';
import { it } from 'node:test';

/**
 * Creates the function that adds a step to a walk. A step takes a picture when it ends, also if it
 * fails. After a failure, the other steps are skipped.
 * @param parts returns the walk's browser, and other parts whose output helps to explain a failure
 */
export const startWalk = (parts) => {
  let failed = false;
  return (name, act) => {
    it(name, async (context) => {
      assert.ok(!failed, 'an earlier step failed');
      const picture = name.replaceAll(/[^a-z]+/gi, '-').slice(0, 60);
      try {
        await act();
        await parts().browser.picture(picture);
      } catch (error) {
        failed = true;
        await parts().browser.picture(`FAILED-${picture}`);
        context.diagnostic(
          Object.values(parts())
            .map((part) => part?.output())
            .join('\n'),
        );
        throw error;
      }
    });
  };
};
