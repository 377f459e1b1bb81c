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
import { useAction } from '../shell/useAction';

type Props = {
  id: string;
  label: string;
  hint: string;
  /** Why the input cannot be saved; "" if it can. */
  problem: string;
  /** Whether the input differs from the saved value. */
  isChanged: boolean;
  action?: string;
  /** The sentence after the input was saved. */
  done?: string;
  /** Other buttons. */
  others?: ReactNode;
  /** Other inputs, which are saved with the field. */
  options?: ReactNode;
  /** Reports whether the input was saved. */
  onSave: () => Promise<boolean>;
  children: ReactNode;
};

/** The form of a setting with one field and its button. */
export const Field = ({
  id,
  label,
  hint,
  problem,
  isChanged,
  action = 'Save',
  done = 'Saved.',
  others,
  options,
  onSave,
  children,
}: Props) => {
  const { isRunning, run } = useAction();
  const [isSaved, setSaved] = useState(false);
  const canSave = isChanged && problem === '' && !isRunning;
  const save = (event: FormEvent) => {
    event.preventDefault();
    if (canSave) {
      void run(async () => {
        setSaved(false);
        setSaved(await onSave());
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
      {options}
      <ActionGroup>
        {/* A button that is disabled loses the focus. */}
        <Button type="submit" isAriaDisabled={!canSave} isLoading={isRunning}>
          {action}
        </Button>
        {others}
        <span role="status" className="landfall-saved">
          {isSaved && !isChanged && done}
        </span>
      </ActionGroup>
    </Form>
  );
};
