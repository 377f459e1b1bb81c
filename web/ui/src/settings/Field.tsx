import {
  ActionGroup,
  Button,
  Form,
  FormGroup,
  FormHelperText,
  HelperText,
  HelperTextItem,
} from '@patternfly/react-core';
import { useState, type FormEvent, type ReactNode } from 'react';

type Props = {
  id: string;
  label: string;
  hint: string;
  /** Why the input cannot be saved; "" if it can. */
  problem: string;
  /** Whether the input differs from the saved value. */
  isChanged: boolean;
  action?: string;
  /** Other buttons. */
  others?: ReactNode;
  onSave: () => Promise<unknown>;
  children: ReactNode;
};

/** The form of a setting with one field and its button. */
export const Field = ({ id, label, hint, problem, isChanged, action = 'Save', others, onSave, children }: Props) => {
  const [isSaving, setSaving] = useState(false);
  const canSave = isChanged && problem === '' && !isSaving;
  const save = (event: FormEvent) => {
    event.preventDefault();
    if (canSave) {
      setSaving(true);
      void onSave().finally(() => {
        setSaving(false);
      });
    }
  };
  const isWrong = isChanged && problem !== '';
  return (
    <Form onSubmit={save}>
      <FormGroup label={label} fieldId={id}>
        {children}
        <FormHelperText>
          <HelperText isLiveRegion>
            <HelperTextItem variant={isWrong ? 'error' : 'default'}>{isWrong ? problem : hint}</HelperTextItem>
          </HelperText>
        </FormHelperText>
      </FormGroup>
      <ActionGroup>
        <Button type="submit" isDisabled={!canSave} isLoading={isSaving}>
          {action}
        </Button>
        {others}
      </ActionGroup>
    </Form>
  );
};
