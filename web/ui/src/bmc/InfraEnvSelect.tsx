import { FormSelect, FormSelectOption } from '@patternfly/react-core';
import type { InfraEnv } from './api';

type Props = { id: string; infraEnvs: InfraEnv[]; none: string; value: string; onChange: (id: string) => void };

/** Selects the infra-env whose image a server boots. */
export const InfraEnvSelect = ({ id, infraEnvs, none, value, onChange }: Props) => (
  <FormSelect
    id={id}
    value={value}
    onChange={(_event, chosen) => {
      onChange(chosen);
    }}
  >
    <FormSelectOption value="" label={none} />
    {infraEnvs.map((infraEnv) => (
      <FormSelectOption key={infraEnv.id} value={infraEnv.id} label={infraEnv.name} />
    ))}
  </FormSelect>
);
