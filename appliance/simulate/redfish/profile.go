package redfish

// MediaDevice is a virtual media device (Redfish: VirtualMedia).
type MediaDevice struct {
	ID         string
	MediaTypes []string
	// Internal devices reject images with 400. They are reserved for remote consoles and uploads.
	Internal bool
}

// Profile describes a vendor's BMC and its requirements.
type Profile struct {
	Name         string
	Vendor       string // in the service root
	Manufacturer string
	Model        string
	BMCModel     string
	Firmware     string
	SystemID     string
	ManagerID    string
	// MediaAtSystem and MediaAtManager select the resources that list the devices.
	MediaAtSystem, MediaAtManager bool
	MediaDevices                  []MediaDevice
	// Written devices have no actions. Clients write the image to the resource.
	Written bool
	// Refused lists properties of InsertMedia that the BMC rejects as unknown.
	Refused []string
	// Wanted lists required properties of InsertMedia.
	Wanted []string
	// Vague names missing properties only in the text of a GeneralError.
	Vague bool
	// NoInfo omits the text of a failure in its ExtendedInfo.
	NoInfo bool
	// BodyForEject rejects an EjectMedia without a body.
	BodyForEject bool
	// Targets lists the allowed values of BootSourceOverrideTarget.
	Targets []string
	// CdIsPhysical makes the override Cd select a physical drive. Attributes of the manager select
	// the virtual drive.
	CdIsPhysical bool
	// NoHTTPBootURI supports the target UefiHttp, but no URL.
	NoHTTPBootURI bool
	// WholeBoot rejects a boot override without its mode.
	WholeBoot bool
	// SettingsBoot accepts the boot override only at the settings resource.
	SettingsBoot bool
	// NoOnce keeps a boot override until the client removes it.
	NoOnce bool
	// StrictTags rejects changes of resources without the current ETag.
	StrictTags bool
	// ResetByInfo lists the reset types in an ActionInfo resource.
	ResetByInfo bool
	// NoSessions omits the SessionService.
	NoSessions bool
	// Tasks answers an insert with 202 and a task.
	Tasks bool
	// OddTypes writes numbers and booleans as strings, and null for required values.
	OddTypes bool
	// Junk adds members to collections that are neither systems nor managers.
	Junk bool
}

var (
	allTargets  = []string{"None", "Pxe", "Cd", "Hdd", "BiosSetup"}
	httpTargets = append([]string{"UefiHttp"}, allTargets...)
)

func cd(id string) MediaDevice { return MediaDevice{ID: id, MediaTypes: []string{"CD", "DVD"}} }

func floppy(id string) MediaDevice {
	return MediaDevice{ID: id, MediaTypes: []string{"Floppy", "USBStick"}}
}

// Profiles returns all profiles. They are based on knowledge of the vendors' BMCs.
func Profiles() []Profile {
	return []Profile{
		{Name: "generic", Vendor: "Contoso", Manufacturer: "Contoso", Model: "Model 1", SystemID: "1", ManagerID: "BMC",
			MediaAtManager: true, MediaDevices: []MediaDevice{floppy("Floppy"), cd("CD")}, Targets: httpTargets},
		{Name: "dell-idrac9", Vendor: "Dell", Manufacturer: "Dell Inc.", Model: "PowerEdge R650",
			BMCModel: "15G Monolithic", Firmware: "7.00.30.00", SystemID: "System.Embedded.1",
			ManagerID:     "iDRAC.Embedded.1",
			MediaAtSystem: true, MediaAtManager: true, MediaDevices: []MediaDevice{cd("1"), cd("2")},
			Targets:      allTargets,
			BodyForEject: true, Junk: true},
		{Name: "dell-idrac9-old", Vendor: "Dell", Manufacturer: "Dell Inc.", Model: "PowerEdge R640",
			BMCModel: "14G Monolithic", Firmware: "4.40.00.00", SystemID: "System.Embedded.1",
			ManagerID:      "iDRAC.Embedded.1",
			MediaAtManager: true, MediaDevices: []MediaDevice{floppy("RemovableDisk"), cd("CD")}, Targets: allTargets,
			CdIsPhysical: true},
		{Name: "dell-idrac10", Vendor: "Dell", Manufacturer: "Dell Inc.", Model: "PowerEdge R670",
			BMCModel: "17G Monolithic", Firmware: "1.10.17.00", SystemID: "System.Embedded.1",
			ManagerID:     "iDRAC.Embedded.1",
			MediaAtSystem: true, MediaDevices: []MediaDevice{cd("1")}, Targets: allTargets, Tasks: true},
		{Name: "hpe-ilo5", Vendor: "HPE", Manufacturer: "HPE", Model: "ProLiant DL380 Gen10", BMCModel: "iLO 5",
			Firmware: "iLO 5 v2.98", SystemID: "1", ManagerID: "1",
			MediaAtManager: true, MediaDevices: []MediaDevice{floppy("1"),
				{ID: "2", MediaTypes: []string{"CD", "DVD"}}},
			Targets: append([]string{"UefiTarget"}, allTargets...), BodyForEject: true},
		{Name: "hpe-ilo6", Vendor: "HPE", Manufacturer: "HPE", Model: "ProLiant DL380 Gen11", BMCModel: "iLO 6",
			Firmware: "iLO 6 v1.55", SystemID: "1", ManagerID: "1",
			MediaAtSystem: true, MediaAtManager: true, MediaDevices: []MediaDevice{floppy("1"),
				{ID: "2", MediaTypes: []string{"DVD"}}}, Targets: httpTargets, NoHTTPBootURI: true, BodyForEject: true,
			StrictTags: true},
		{Name: "supermicro-x12", Vendor: "Supermicro", Manufacturer: "Supermicro", Model: "SYS-120C-TN10R",
			Firmware: "01.01.16", SystemID: "1", ManagerID: "1",
			MediaAtManager: true, MediaDevices: []MediaDevice{{ID: "CD1", MediaTypes: []string{"CD", "DVD"}}},
			Targets: append([]string{"UsbCd"}, httpTargets...), Refused: []string{"Inserted", "WriteProtected"},
			ResetByInfo: true},
		{Name: "supermicro-arm", Vendor: "Supermicro", Manufacturer: "Supermicro", Model: "ARS-111GL-NHR",
			Firmware: "01.02.47", SystemID: "1", ManagerID: "1",
			MediaAtManager: true, MediaDevices: []MediaDevice{cd("CD1")}, Targets: append([]string{"UsbCd"},
				allTargets...),
			Refused: []string{"Inserted", "WriteProtected"}},
		{Name: "lenovo-xcc", Vendor: "Lenovo", Manufacturer: "Lenovo", Model: "ThinkSystem SR650",
			BMCModel: "Lenovo XClarity Controller", Firmware: "CDI3A6E", SystemID: "1", ManagerID: "1",
			MediaAtSystem: true, MediaDevices: []MediaDevice{{ID: "RDOC1", MediaTypes: []string{"CD"}, Internal: true},
				{ID: "Remote1", MediaTypes: []string{"CD"}, Internal: true}, cd("EXT1"), cd("EXT2")},
			Targets: allTargets, Written: true, StrictTags: true},
		{Name: "fujitsu-irmc", Vendor: "FUJITSU", Manufacturer: "FUJITSU", Model: "PRIMERGY RX2540 M6",
			BMCModel: "iRMC S5", Firmware: "3.37P", SystemID: "0", ManagerID: "iRMC",
			MediaAtManager: true, MediaDevices: []MediaDevice{cd("0")}, Targets: httpTargets, SettingsBoot: true},
		{Name: "ami-megarac", Vendor: "AMI", Manufacturer: "ASRockRack", Model: "1U4LW-B650", Firmware: "5.05",
			SystemID: "Self", ManagerID: "Self",
			MediaAtManager: true, MediaDevices: []MediaDevice{{ID: "KVM1", MediaTypes: []string{"CD"}, Internal: true},
				cd("CD1")},
			Targets: httpTargets, WholeBoot: true, StrictTags: true, Wanted: []string{"TransferProtocolType"}},
		{Name: "cisco-cimc", Vendor: "Cisco Systems Inc.", Manufacturer: "Cisco Systems Inc", Model: "UCSC-C220-M5SX",
			Firmware: "4.2(3b)", SystemID: "WZP2310", ManagerID: "CIMC",
			MediaAtManager: true, MediaDevices: []MediaDevice{{ID: "0", MediaTypes: []string{"DVD"}, Internal: true},
				{ID: "1", MediaTypes: []string{"DVD"}}}, Targets: allTargets, Vague: true,
			Wanted: []string{"TransferProtocolType"}},
		{Name: "nvidia-dgx", Vendor: "NVIDIA", Manufacturer: "NVIDIA", Model: "DGX H100", Firmware: "24.01",
			SystemID: "DGX", ManagerID: "BMC", Junk: true,
			MediaAtManager: true, MediaDevices: []MediaDevice{cd("CD1")}, Targets: httpTargets,
			Wanted: []string{"TransferProtocolType", "UserName", "Password"}},
		{Name: "zte", Vendor: "ZTE", Manufacturer: "ZTE", Model: "R5300 G4", Firmware: "03.11", SystemID: "1",
			ManagerID:      "1",
			MediaAtManager: true, MediaDevices: []MediaDevice{cd("CD")}, Targets: allTargets, OddTypes: true},
		{Name: "sushy-emulator", Manufacturer: "Sushy Emulator", SystemID: "c7a5fdbd-cdaf-9455-926a-d65c16db1809",
			ManagerID:     "58893887-8974-2487-2389-841168418919",
			MediaAtSystem: true, MediaAtManager: true, MediaDevices: []MediaDevice{{ID: "Cd",
				MediaTypes: []string{"CD", "DVD"}},
				floppy("Floppy")}, Targets: []string{"Pxe", "Cd", "Hdd", "UefiHttp"}, NoSessions: true,
			NoOnce: true, NoInfo: true},
	}
}

// ProfileByName returns the profile with a name. It returns false if the profile does not exist.
func ProfileByName(name string) (Profile, bool) {
	for _, profile := range Profiles() {
		if profile.Name == name {
			return profile, true
		}
	}
	return Profile{}, false
}

// Fault is a fault of a BMC.
type Fault string

// Faults of BMCs.
const (
	InUse400      Fault = "insert-in-use-400" // an insert into a full drive is answered with 400
	InUse409      Fault = "insert-in-use-409" // an insert into a full drive is answered with 409
	InUse500      Fault = "insert-in-use-500" // an insert into a full drive is answered with 500 and VRM0021
	StuckMedia    Fault = "media-stuck"       // the image cannot be ejected
	EjectEmpty400 Fault = "eject-empty-400"   // an eject of an empty drive is answered with 400
	EjectKeeps    Fault = "eject-keeps-image" // the first eject is accepted but keeps the image
	StaleInserted Fault = "stale-inserted"    // a drive shows its former content for five seconds after an eject
	Insert500Once Fault = "insert-500-once"   // the first insert fails with 500
	Insert500     Fault = "insert-500"        // every insert fails with 500
	Busy503       Fault = "busy-503"          // the first changes are answered with 503 and Retry-After
	NotReady      Fault = "not-ready"         // the first changes are answered with SYS518
	// no session is free, and requests without a session are rejected
	SessionsFull     Fault = "sessions-full"
	SessionEnds      Fault = "session-ends"       // a session ends after some requests
	NoSessionService Fault = "no-session-service" // creating a session is answered with 405
	SelfSigned       Fault = "tls-self-signed"    // the certificate is self-signed
	Expired          Fault = "tls-expired"        // the certificate is self-signed and has expired
	TLS12            Fault = "tls-1.2"            // the BMC supports TLS 1.2 at most
	Reset            Fault = "connection-reset"   // some responses are cut off
	TaskFails        Fault = "task-fails"         // an insert becomes a task that runs and then fails
	TaskSlow         Fault = "task-slow"          // an insert becomes a task that runs for a while
	Tag412           Fault = "etag-412"           // the first change of a resource is answered with 412
	Tag428           Fault = "etag-428"           // changes without an ETag are answered with 428
	// boot overrides are rejected for some seconds after each reset
	BootInPOST     Fault = "boot-during-post"
	On409          Fault = "on-409-twice"       // the first two attempts to power on are answered with 409
	Off400         Fault = "off-400"            // a power-off of a server that is off is answered with 400
	PowerNull      Fault = "power-null"         // the power state is null
	PowerSlow      Fault = "powering-on"        // the power state stays PoweringOn
	PowerStuck     Fault = "power-stuck"        // the server does not power off
	NoReset        Fault = "no-reset"           // the system has no Reset action
	NoRanges       Fault = "no-ranges"          // the BMC downloads images without ranges
	Unreachable    Fault = "image-unreachable"  // the BMC cannot reach the image
	NoLicence      Fault = "no-licence"         // virtual media is not licensed
	NoDrives       Fault = "no-drives"          // the BMC has no virtual drives
	Slow           Fault = "slow"               // each response takes 30 seconds
	WrongPassword  Fault = "wrong-password"     // the credentials are rejected
	ReadOnly       Fault = "read-only-user"     // the user may only read
	PowerLost      Fault = "power-lost"         // the BMC loses power temporarily
	Clock1970      Fault = "clock-1970"         // the BMC's clock is not set
	SeveralSystems Fault = "several-systems"    // the BMC has two systems
	NoSystems      Fault = "no-systems"         // the BMC has no system
	NotRedfish     Fault = "not-redfish"        // another kind of server responds at the address
	WebPage        Fault = "web-page"           // another kind of server responds with HTML and 200
	HTTPBootShort  Fault = "http-boot-url-32"   // a URL for UEFI HTTP boot may have at most 32 bytes
	HTTPBootPlain  Fault = "http-boot-no-https" // a URL for UEFI HTTP boot must begin with http:
)

// Faults returns all faults.
func Faults() []Fault {
	return []Fault{
		InUse400, InUse409, InUse500, StuckMedia, EjectEmpty400, EjectKeeps, StaleInserted, Insert500Once, Insert500,
		Busy503, NotReady, SessionsFull,
		SessionEnds, NoSessionService, SelfSigned, Expired, TLS12, Reset, TaskFails, TaskSlow, Tag412, Tag428,
		BootInPOST, On409, Off400, PowerNull,
		PowerSlow, PowerStuck, NoReset, NoRanges, Unreachable, NoLicence, NoDrives, Slow, WrongPassword, ReadOnly,
		PowerLost, Clock1970, SeveralSystems,
		NoSystems, NotRedfish, WebPage, HTTPBootShort, HTTPBootPlain,
	}
}
