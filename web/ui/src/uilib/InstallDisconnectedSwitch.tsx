/**
 * Replaces the library's switch for disconnected sites, which leads to an image that installs
 * without an appliance. `landfall.css` hides the whole row of the switch.
 */
const InstallDisconnectedSwitch = () => <span className="landfall-left-out" />;

export default InstallDisconnectedSwitch;
