import Library from 'ui-lib/common/api/assisted-service/InfraEnvsAPI';
import { untilAnswered } from '../live/untilAnswered';

/**
 * The library's requests for infra-envs. The requests that load a page wait until the appliance
 * responds.
 */
const InfraEnvsAPI: typeof Library = {
  ...Library,
  list: (...which) => untilAnswered(() => Library.list(...which)),
  get: (...which) => untilAnswered(() => Library.get(...which)),
};

export default InfraEnvsAPI;
