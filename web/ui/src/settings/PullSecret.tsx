import { Button, Content, TextArea } from '@patternfly/react-core';
import { useState } from 'react';
import { useMay } from '../access/AccessProvider';
import { Confirm } from '../shell/Confirm';
import { useAct } from '../shell/useAct';
import { changeSettings, type Settings } from './api';
import { problemOfPullSecret } from './check';
import { Field } from './Field';
import { Setting } from './Setting';

/** The site's pull secret. It can be replaced, but not read. */
export const PullSecret = ({ setting, changed }: { setting: Settings['pull_secret']; changed: () => void }) => {
  const { act, failure } = useAct(changed);
  const [text, setText] = useState('');
  const [isRemoving, setRemoving] = useState(false);
  const mayChange = useMay('admin') && !setting.fixed;
  const registries = setting.registries ?? [];
  return (
    <Setting
      id="pull-secret"
      title="Pull secret"
      about="The credentials for the mirror. Clusters use it unless they have their own. It cannot be read here."
      isFixed={setting.fixed}
      failure={failure}
    >
      <Content component="p" data-testid="pull-secret-state">
        {!setting.set && 'Not set.'}
        {setting.set && registries.length === 0 && 'Set. It has credentials for no registry.'}
        {setting.set && registries.length > 0 && `Set, with credentials for ${registries.join(', ')}.`}
      </Content>
      {mayChange && (
        <Field
          id="pull-secret-field"
          label={setting.set ? 'New pull secret' : 'Pull secret'}
          hint={'For a mirror without a login: {"auths":{}}'}
          problem={problemOfPullSecret(text)}
          isChanged={text.trim() !== ''}
          action={setting.set ? 'Replace' : 'Save'}
          others={
            setting.set && (
              <Button
                variant="link"
                isDanger
                onClick={() => {
                  setRemoving(true);
                }}
              >
                Remove the pull secret
              </Button>
            )
          }
          onSave={() =>
            act(() =>
              changeSettings({ pull_secret: text.trim() }).then(() => {
                setText((typed) => (typed === text ? '' : typed));
              }),
            )
          }
        >
          <TextArea
            id="pull-secret-field"
            className="landfall-yaml"
            rows={4}
            resizeOrientation="vertical"
            autoComplete="off"
            spellCheck={false}
            value={text}
            onChange={(_, typed) => {
              setText(typed);
            }}
          />
        </Field>
      )}
      {isRemoving && (
        <Confirm
          title="Remove the pull secret?"
          action="Remove"
          onConfirm={() => void act(() => changeSettings({ pull_secret: '' }))}
          onClose={() => {
            setRemoving(false);
          }}
        >
          New clusters then need their own. Clusters that exist keep theirs.
        </Confirm>
      )}
    </Setting>
  );
};
