import { FormSelect, FormSelectOption } from '@patternfly/react-core';
import { roleNames, roles, type Role } from './api';

type Props = { label: string; value: Role; isDisabled?: boolean; onChange: (role: Role) => void };

export const RoleSelect = ({ label, value, isDisabled = false, onChange }: Props) => (
  <FormSelect
    aria-label={label}
    value={value}
    isDisabled={isDisabled}
    className="landfall-narrow"
    onChange={(_event, chosen) => {
      onChange(chosen as Role);
    }}
  >
    {roles.map((role) => (
      <FormSelectOption key={role} value={role} label={roleNames[role]} />
    ))}
  </FormSelect>
);
