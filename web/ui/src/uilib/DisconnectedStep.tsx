/**
 * The library's steps for an image with a registry of its own. Nothing leads to them, because the
 * appliance makes every cluster for a site without internet.
 */
const DisconnectedStep = () => null;

export default DisconnectedStep;
