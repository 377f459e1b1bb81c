/**
 * In place of the library's switch for sites without internet, which leads to an image that installs without an
 * appliance. `landfall.css` leaves out the whole line that this stands in.
 */
const InstallDisconnectedSwitch = () => <span className="landfall-left-out" />;

export default InstallDisconnectedSwitch;
