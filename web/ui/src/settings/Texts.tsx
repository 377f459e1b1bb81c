import { Content, TextArea, TextInput } from '@patternfly/react-core';
import { useMay } from '../access/AccessProvider';
import { useAct } from '../shell/useAct';
import { changeSettings, type Settings } from './api';
import { listOf, problemOfKey } from './check';
import { Field } from './Field';
import { Setting } from './Setting';
import { useDraft } from './useDraft';

/** The SSH key with which people log in at the hosts. */
export const SSHKey = ({ setting, changed }: { setting: Settings['ssh_public_key']; changed: () => void }) => {
  const { act, failure } = useAct(changed);
  const draft = useDraft(setting.value);
  const mayChange = useMay('admin') && !setting.fixed;
  return (
    <Setting
      id="ssh-key"
      title="SSH key"
      about="With this key you can log in to hosts as the user core. Without one, nobody can look at a host that fails."
      isFixed={setting.fixed}
      failure={failure}
    >
      {mayChange ? (
        <Field
          id="ssh-key-field"
          label="Public key"
          hint="The content of a file such as id_ed25519.pub. One key a line."
          problem={problemOfKey(draft.text)}
          isChanged={draft.isChanged}
          onSave={() => act(() => changeSettings({ ssh_public_key: draft.text.trim() }).then(draft.forget))}
        >
          <TextArea
            id="ssh-key-field"
            className="landfall-yaml"
            rows={3}
            resizeOrientation="vertical"
            value={draft.text}
            onChange={(_, text) => {
              draft.edit(text);
            }}
          />
        </Field>
      ) : (
        <Value>{setting.value}</Value>
      )}
    </Setting>
  );
};

/** The servers from which hosts take the time. */
export const TimeServers = ({ setting, changed }: { setting: Settings['ntp_sources']; changed: () => void }) => {
  const { act, failure } = useAct(changed);
  const saved = (setting.value ?? []).join(', ');
  const draft = useDraft(saved);
  const mayChange = useMay('admin') && !setting.fixed;
  return (
    <Setting
      id="time-servers"
      title="Time servers"
      about="Hosts take the time from these NTP servers. Hosts whose clocks differ cannot form a cluster."
      isFixed={setting.fixed}
      failure={failure}
    >
      {mayChange ? (
        <Field
          id="time-servers-field"
          label="NTP servers"
          hint="Names or addresses, separated by commas. Without any, hosts use the servers that DHCP names."
          problem=""
          isChanged={draft.isChanged}
          onSave={() => act(() => changeSettings({ ntp_sources: listOf(draft.text) }).then(draft.forget))}
        >
          <TextInput
            id="time-servers-field"
            value={draft.text}
            onChange={(_, text) => {
              draft.edit(text);
            }}
          />
        </Field>
      ) : (
        <Value>{saved}</Value>
      )}
    </Setting>
  );
};

const Value = ({ children }: { children: string }) => (
  <Content component="p" className="landfall-address">
    {children || 'Not set.'}
  </Content>
);
