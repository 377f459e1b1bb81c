import { FormGroup, FormHelperText, HelperText, HelperTextItem, TextInput } from '@patternfly/react-core';

type Props = {
  id: string;
  label: string;
  help?: string | undefined;
  isRequired?: boolean | undefined;
  type?: 'text' | 'password';
  value: string;
  onChange: (value: string) => void;
};

/** A text of a form. */
export const TextField = ({ id, label, help, isRequired = false, type = 'text', value, onChange }: Props) => (
  <FormGroup label={label} fieldId={id} isRequired={isRequired}>
    <TextInput
      id={id}
      type={type}
      autoComplete="off"
      value={value}
      onChange={(_event, text) => {
        onChange(text);
      }}
    />
    {help && (
      <FormHelperText>
        <HelperText>
          <HelperTextItem>{help}</HelperTextItem>
        </HelperText>
      </FormHelperText>
    )}
  </FormGroup>
);
