import {
  Alert,
  CodeBlock,
  CodeBlockCode,
  Content,
  DescriptionList,
  DescriptionListDescription,
  DescriptionListGroup,
  DescriptionListTerm,
} from '@patternfly/react-core';
import type { HostPreview } from './api';

/** The network settings that one host would get. */
export const HostPreviewPanel = ({ preview }: { preview: HostPreview | undefined }) => {
  if (!preview) {
    return <Content component="small">The settings of this host will appear here.</Content>;
  }
  if (preview.fault) {
    return <Alert isInline variant="danger" title={`${preview.fault.message}.`} data-testid="network-fault" />;
  }
  return (
    <div data-testid="network-preview">
      {preview.warnings?.map((warning) => (
        <Alert key={warning} isInline variant="warning" title={`${warning}.`} className="pf-v6-u-mb-md" />
      ))}
      {preview.addresses.length > 0 && (
        <DescriptionList isCompact isHorizontal className="pf-v6-u-mb-md">
          {preview.addresses.map(({ interface: name, address }) => (
            <DescriptionListGroup key={`${name} ${address}`}>
              <DescriptionListTerm>{name}</DescriptionListTerm>
              <DescriptionListDescription>{address}</DescriptionListDescription>
            </DescriptionListGroup>
          ))}
        </DescriptionList>
      )}
      {preview.files.map(({ name, content }) => (
        <div key={name} className="pf-v6-u-mb-md">
          <Content component="h4">{name}</Content>
          <CodeBlock>
            <CodeBlockCode>{content.trimEnd()}</CodeBlockCode>
          </CodeBlock>
        </div>
      ))}
    </div>
  );
};
