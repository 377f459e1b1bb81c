import { FormHelperText, HelperText, HelperTextItem } from '@patternfly/react-core';
import type { ReactNode } from 'react';

/** What a field is for, or why its input is wrong. */
export const Hint = ({ id, problem, children }: { id: string; problem: string; children: ReactNode }) => (
  <FormHelperText>
    <HelperText id={id} isLiveRegion>
      <HelperTextItem variant={problem ? 'error' : 'default'}>{problem || children}</HelperTextItem>
    </HelperText>
  </FormHelperText>
);
