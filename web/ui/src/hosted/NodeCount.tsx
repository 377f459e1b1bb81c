import { NumberInput } from '@patternfly/react-core';

const most = 500;

type Props = { id?: string; label: string; value: number; onChange: (value: number) => void };

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
      onChange(value - 1);
    }}
    onPlus={() => {
      onChange(value + 1);
    }}
    onChange={(event) => {
      onChange(Number(event.currentTarget.value));
    }}
  />
);
