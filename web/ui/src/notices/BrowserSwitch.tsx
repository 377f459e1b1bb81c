import { Content, Switch } from '@patternfly/react-core';
import { useBrowserNotices } from './BrowserNotices';
import { obstacle, setOn } from './browser';

/** Switches the notifications of this browser. */
export const BrowserSwitch = () => {
  const isOn = useBrowserNotices();
  const problem = obstacle(window);
  return (
    <>
      <Switch
        id="browser-notifications"
        label="Show notifications in this browser while this page is open"
        isChecked={isOn}
        isDisabled={problem !== ''}
        onChange={(_event, checked) => void setOn(window, checked)}
      />
      {problem !== '' && (
        <Content component="small" data-testid="no-notifications">
          {problem}
        </Content>
      )}
    </>
  );
};
