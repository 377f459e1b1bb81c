import Library from 'ui-lib/common/api/assisted-service/NewFeatureSupportLevelsAPI';
import { shareRunning } from './shareRunning';

/** The library's requests for support levels. Several parts of a step ask for the same at once. */
const NewFeatureSupportLevelsAPI: typeof Library = {
  ...Library,
  featuresSupportLevel: shareRunning((...which) => Library.featuresSupportLevel(...which)),
};

export default NewFeatureSupportLevelsAPI;
