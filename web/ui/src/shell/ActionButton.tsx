import { Button, type ButtonProps } from '@patternfly/react-core';
import { useAction } from './useAction';

type Props = Omit<ButtonProps, 'onClick' | 'isLoading' | 'isAriaDisabled' | 'ref'> & {
  /** Sends the request. */
  onAct: () => Promise<unknown>;
};

/** A button that sends a request, once at a time. It keeps the focus while the request runs. */
export const ActionButton = ({ onAct, isInline = false, ...others }: Props) => {
  const { isRunning, run } = useAction();
  return (
    <Button
      {...others}
      isInline={isInline}
      isAriaDisabled={isRunning}
      // A spinner does not fit into a line of text.
      {...(!isInline && { isLoading: isRunning })}
      onClick={() => void run(onAct)}
    />
  );
};
