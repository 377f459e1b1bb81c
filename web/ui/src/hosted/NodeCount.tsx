import { NumberInput } from '@patternfly/react-core';

const most = 500;

/** A number of nodes; '' if the field is empty. */
export type Count = number | '';

/** Whether a node pool can have this number of nodes. */
export const isNodeCount = (value: Count): value is number =>
  value !== '' && Number.isInteger(value) && value >= 0 && value <= most;

type Props = { id?: string; label: string; value: Count; onChange: (value: Count) => void };

/** The number of nodes of a node pool. */
export const NodeCount = ({ id, label, value, onChange }: Props) => (
  <NumberInput
    inputProps={{ id }}
    value={value}
    min={0}
    max={most}
    inputAriaLabel={label}
    minusBtnAriaLabel="One node less"
    plusBtnAriaLabel="One node more"
    onMinus={() => {
      onChange(Number(value) - 1);
    }}
    onPlus={() => {
      onChange(Number(value) + 1);
    }}
    onChange={(event) => {
      const input = event.currentTarget;
      if (event.type === 'blur') {
        input.value = String(value); // PatternFly has written 0 into an empty field
        return;
      }
      onChange(input.value === '' ? '' : Number(input.value));
    }}
  />
);
