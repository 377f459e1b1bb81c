import { Alert, Content, TextInput } from '@patternfly/react-core';
import { useMay } from '../access/AccessProvider';
import { useAct } from '../shell/useAct';
import { changeSettings, type Settings } from './api';
import { problemOfURL } from './check';
import { Field } from './Field';
import { Setting } from './Setting';
import { useDraft } from './useDraft';

/** The address by which hosts and BMCs reach the appliance. */
export const URLSetting = ({ setting, changed }: { setting: Settings['url']; changed: () => void }) => {
  const { act, failure } = useAct(changed);
  const draft = useDraft(setting.value);
  const mayChange = useMay('admin') && !setting.fixed;
  const candidates = setting.candidates ?? [];
  return (
    <Setting
      id="url"
      title="Address for hosts"
      about="Hosts and BMCs reach this appliance at this address. Discovery images contain it."
      isFixed={setting.fixed}
      failure={failure}
    >
      {setting.restart_needed && (
        <Alert
          isInline
          className="landfall-alert"
          variant="warning"
          title="Restart the appliance: it uses the new address after its next start."
          data-testid="restart-needed"
        />
      )}
      {setting.local_listener && (
        <Alert
          isInline
          className="landfall-alert"
          variant="warning"
          title={`The appliance listens on ${setting.local_listener}, which only this machine reaches.`}
          data-testid="local-listener"
        >
          {setting.advice} The address below helps only if a proxy on this machine passes on the requests of the hosts.
        </Alert>
      )}
      {mayChange ? (
        <Field
          id="url-field"
          label="Address"
          hint={
            candidates.length > 0
              ? `Addresses of this machine: ${candidates.join(', ')}`
              : 'Such as https://192.0.2.10:8090'
          }
          problem={problemOfURL(draft.text.trim())}
          isChanged={draft.isChanged}
          onSave={() => act(() => changeSettings({ url: draft.text.trim() }).then(draft.forget))}
        >
          <TextInput
            id="url-field"
            type="url"
            list="url-candidates"
            value={draft.text}
            onChange={(_, text) => {
              draft.edit(text);
            }}
          />
          <datalist id="url-candidates">
            {candidates.map((one) => (
              <option key={one} value={one} />
            ))}
          </datalist>
        </Field>
      ) : (
        <Content component="p" className="landfall-address">
          {setting.value}
        </Content>
      )}
    </Setting>
  );
};
