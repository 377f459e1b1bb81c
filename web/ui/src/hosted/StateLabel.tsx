import { Label } from '@patternfly/react-core';

const colors = new Map<string, 'green' | 'red' | 'orange'>([
  ['Succeeded', 'green'],
  ['Failed', 'red'],
  ['Deleting', 'orange'],
]);

/** The state of a hosted cluster or of a node pool. */
export const StateLabel = ({ state }: { state: string }) => (
  <Label isCompact color={colors.get(state) ?? 'blue'}>
    {state}
  </Label>
);
