import {
  Dropdown,
  DropdownItem,
  DropdownList,
  FormGroup,
  MenuToggle,
  type MenuToggleElement,
} from '@patternfly/react-core';
import { useField } from 'formik';
import { useState, type ComponentProps, type Ref } from 'react';
import LibraryDropdown, {
  discoveryImageTypes,
} from 'ui-lib/ocm/components/clusterConfiguration/DiscoveryImageTypeDropdown';
import { getImageFacts, type ImageFacts } from '../image/api';
import { whyNoMinimal, whyNoNetworkBoot } from '../image/facts';
import { useShownInfraEnv } from './shownInfraEnv';

export { discoveryImageTypes };

type ImageType = keyof typeof discoveryImageTypes;

/**
 * The selection of the image type. The library's component offers every type; this one gives the
 * reason if the OS image does not support a type.
 */
const DiscoveryImageTypeDropdown = ({
  name,
  onChange,
  isDisabled,
}: ComponentProps<typeof LibraryDropdown>) => {
  const [field, , { setValue }] = useField<ImageType>(name);
  const [isOpen, setOpen] = useState(false);
  const { answer: facts } = useShownInfraEnv(getImageFacts, untilKnown);
  const fieldId = `form-input-${name}-field`;
  const choose = (type: ImageType) => {
    setValue(type);
    setOpen(false);
    onChange(type === 'discovery-image-ipxe');
  };
  const choice = (type: ImageType, whyNot: string, whatFor: string) => (
    <DropdownItem
      key={type}
      id={type}
      isDisabled={whyNot !== ''}
      description={whyNot || whatFor}
      onClick={() => {
        choose(type);
      }}
    >
      {discoveryImageTypes[type]}
    </DropdownItem>
  );
  return (
    <FormGroup fieldId={fieldId} label="Provisioning type">
      <Dropdown
        isOpen={isOpen}
        onOpenChange={setOpen}
        toggle={(ref: Ref<MenuToggleElement>) => (
          <MenuToggle
            id={fieldId}
            ref={ref}
            isFullWidth
            isExpanded={isOpen}
            isDisabled={isDisabled}
            onClick={() => {
              setOpen(!isOpen);
            }}
            data-testid="discovery-image-type-dropdown-toggle"
          >
            {discoveryImageTypes[field.value]}
          </MenuToggle>
        )}
      >
        <DropdownList>
          {choice('full-iso', '', 'The image contains everything needed to boot')}
          {choice(
            'minimal-iso',
            whyNoMinimal(facts),
            'A small image for slow virtual media: hosts fetch the rest while booting',
          )}
          {choice(
            'discovery-image-ipxe',
            whyNoNetworkBoot(facts),
            'A script for your network boot server',
          )}
        </DropdownList>
      </Dropdown>
    </FormGroup>
  );
};

export default DiscoveryImageTypeDropdown;

const untilKnown = (facts: ImageFacts | undefined) => (facts ? undefined : 2_000);
