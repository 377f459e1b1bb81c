// A walk: steps that go on where the one before stopped.

import assert from 'node:assert/strict';
import { it } from 'node:test';

/**
 * Makes the function that adds a step to a walk. A step keeps a picture, also of how it failed, and is left out once one has
 * failed.
 * @param parts gives the walk's browser, and whatever else has output that tells why a step failed
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
