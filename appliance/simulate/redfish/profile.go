package redfish

// Slot is a virtual drive.
type Slot struct {
	ID         string
	MediaTypes []string
	// Internal drives refuse images with 400: they are for remote consoles and uploads.
	Internal bool
}

// Profile is how a vendor's BMC is and what it wants of its clients.
type Profile struct {
	Name         string
	Vendor       string // of the service root
	Manufacturer string
	Model        string
	BMCModel     string
	Firmware     string
	SystemID     string
	ManagerID    string
	// MediaAtSystem and MediaAtManager say where the drives are listed.
	MediaAtSystem, MediaAtManager bool
	Slots                         []Slot
	// Written drives have no actions: what they hold is written to the resource.
	Written bool
	// Refused are fields of InsertMedia that are answered as unknown.
	Refused []string
	// Wanted are fields of InsertMedia that are asked for when they are missing.
	Wanted []string
	// Vague says what is missing in words alone, as a GeneralError.
	Vague bool
	// BodyForEject refuses an EjectMedia without a body.
	BodyForEject bool
	// Targets are the allowed values of BootSourceOverrideTarget.
	Targets []string
	// CdIsPhysical has the override Cd mean a real drive: the virtual one is chosen by attributes
	// of the manager.
	CdIsPhysical bool
	// NoHTTPBootURI knows the target UefiHttp, and takes no URL for it.
	NoHTTPBootURI bool
	// WholeBoot refuses a boot override without its mode.
	WholeBoot bool
	// SettingsBoot takes the boot override at the resource for settings alone.
	SettingsBoot bool
	// NoOnce keeps a boot override until it is taken back.
	NoOnce bool
	// StrictTags refuses changes of resources without the tag of the present version.
	StrictTags bool
	// ResetByInfo tells the reset types in an ActionInfo.
	ResetByInfo bool
	// NoSessions has no SessionService.
	NoSessions bool
	// Tasks answers an insert with 202 and a task.
	Tasks bool
	// OddTypes writes numbers and truths as texts, and null where there must be a value.
	OddTypes bool
	// Junk adds members that are no systems and no managers.
	Junk bool
}

var (
	allTargets  = []string{"None", "Pxe", "Cd", "Hdd", "BiosSetup"}
	httpTargets = append([]string{"UefiHttp"}, allTargets...)
)

func cd(id string) Slot { return Slot{ID: id, MediaTypes: []string{"CD", "DVD"}} }

func floppy(id string) Slot { return Slot{ID: id, MediaTypes: []string{"Floppy", "USBStick"}} }

// Profiles are all there are, by what is known of the vendors' BMCs in the field.
func Profiles() []Profile {
	return []Profile{
		{Name: "generic", Vendor: "Contoso", Manufacturer: "Contoso", Model: "Model 1", SystemID: "1", ManagerID: "BMC",
			MediaAtManager: true, Slots: []Slot{floppy("Floppy"), cd("CD")}, Targets: httpTargets},
		{Name: "dell-idrac9", Vendor: "Dell", Manufacturer: "Dell Inc.", Model: "PowerEdge R650",
			BMCModel: "15G Monolithic", Firmware: "7.00.30.00", SystemID: "System.Embedded.1",
			ManagerID:     "iDRAC.Embedded.1",
			MediaAtSystem: true, MediaAtManager: true, Slots: []Slot{cd("1"), cd("2")}, Targets: allTargets,
			BodyForEject: true, Junk: true},
		{Name: "dell-idrac9-old", Vendor: "Dell", Manufacturer: "Dell Inc.", Model: "PowerEdge R640",
			BMCModel: "14G Monolithic", Firmware: "4.40.00.00", SystemID: "System.Embedded.1",
			ManagerID:      "iDRAC.Embedded.1",
			MediaAtManager: true, Slots: []Slot{floppy("RemovableDisk"), cd("CD")}, Targets: allTargets,
			CdIsPhysical: true},
		{Name: "dell-idrac10", Vendor: "Dell", Manufacturer: "Dell Inc.", Model: "PowerEdge R670",
			BMCModel: "17G Monolithic", Firmware: "1.10.17.00", SystemID: "System.Embedded.1",
			ManagerID:     "iDRAC.Embedded.1",
			MediaAtSystem: true, Slots: []Slot{cd("1")}, Targets: allTargets, Tasks: true},
		{Name: "hpe-ilo5", Vendor: "HPE", Manufacturer: "HPE", Model: "ProLiant DL380 Gen10", BMCModel: "iLO 5",
			Firmware: "iLO 5 v2.98", SystemID: "1", ManagerID: "1",
			MediaAtManager: true, Slots: []Slot{floppy("1"), {ID: "2", MediaTypes: []string{"CD", "DVD"}}},
			Targets: append([]string{"UefiTarget"}, allTargets...), BodyForEject: true},
		{Name: "hpe-ilo6", Vendor: "HPE", Manufacturer: "HPE", Model: "ProLiant DL380 Gen11", BMCModel: "iLO 6",
			Firmware: "iLO 6 v1.55", SystemID: "1", ManagerID: "1",
			MediaAtSystem: true, MediaAtManager: true, Slots: []Slot{floppy("1"),
				{ID: "2", MediaTypes: []string{"DVD"}}}, Targets: httpTargets, NoHTTPBootURI: true, BodyForEject: true,
			StrictTags: true},
		{Name: "supermicro-x12", Vendor: "Supermicro", Manufacturer: "Supermicro", Model: "SYS-120C-TN10R",
			Firmware: "01.01.16", SystemID: "1", ManagerID: "1",
			MediaAtManager: true, Slots: []Slot{{ID: "CD1", MediaTypes: []string{"CD", "DVD"}}},
			Targets: append([]string{"UsbCd"}, httpTargets...), Refused: []string{"Inserted", "WriteProtected"},
			ResetByInfo: true},
		{Name: "supermicro-arm", Vendor: "Supermicro", Manufacturer: "Supermicro", Model: "ARS-111GL-NHR",
			Firmware: "01.02.47", SystemID: "1", ManagerID: "1",
			MediaAtManager: true, Slots: []Slot{cd("CD1")}, Targets: append([]string{"UsbCd"}, allTargets...),
			Refused: []string{"Inserted", "WriteProtected"}},
		{Name: "lenovo-xcc", Vendor: "Lenovo", Manufacturer: "Lenovo", Model: "ThinkSystem SR650",
			BMCModel: "Lenovo XClarity Controller", Firmware: "CDI3A6E", SystemID: "1", ManagerID: "1",
			MediaAtSystem: true, Slots: []Slot{{ID: "RDOC1", MediaTypes: []string{"CD"}, Internal: true},
				{ID: "Remote1", MediaTypes: []string{"CD"}, Internal: true}, cd("EXT1"), cd("EXT2")},
			Targets: allTargets, Written: true, StrictTags: true},
		{Name: "fujitsu-irmc", Vendor: "FUJITSU", Manufacturer: "FUJITSU", Model: "PRIMERGY RX2540 M6",
			BMCModel: "iRMC S5", Firmware: "3.37P", SystemID: "0", ManagerID: "iRMC",
			MediaAtManager: true, Slots: []Slot{cd("0")}, Targets: httpTargets, SettingsBoot: true},
		{Name: "ami-megarac", Vendor: "AMI", Manufacturer: "ASRockRack", Model: "1U4LW-B650", Firmware: "5.05",
			SystemID: "Self", ManagerID: "Self",
			MediaAtManager: true, Slots: []Slot{{ID: "KVM1", MediaTypes: []string{"CD"}, Internal: true}, cd("CD1")},
			Targets: httpTargets, WholeBoot: true, StrictTags: true, Wanted: []string{"TransferProtocolType"}},
		{Name: "cisco-cimc", Vendor: "Cisco Systems Inc.", Manufacturer: "Cisco Systems Inc", Model: "UCSC-C220-M5SX",
			Firmware: "4.2(3b)", SystemID: "WZP2310", ManagerID: "CIMC",
			MediaAtManager: true, Slots: []Slot{{ID: "0", MediaTypes: []string{"DVD"}, Internal: true},
				{ID: "1", MediaTypes: []string{"DVD"}}}, Targets: allTargets, Vague: true,
			Wanted: []string{"TransferProtocolType"}},
		{Name: "nvidia-dgx", Vendor: "NVIDIA", Manufacturer: "NVIDIA", Model: "DGX H100", Firmware: "24.01",
			SystemID: "DGX", ManagerID: "BMC", Junk: true,
			MediaAtManager: true, Slots: []Slot{cd("CD1")}, Targets: httpTargets,
			Wanted: []string{"TransferProtocolType", "UserName", "Password"}},
		{Name: "zte", Vendor: "ZTE", Manufacturer: "ZTE", Model: "R5300 G4", Firmware: "03.11", SystemID: "1",
			ManagerID:      "1",
			MediaAtManager: true, Slots: []Slot{cd("CD")}, Targets: allTargets, OddTypes: true},
		{Name: "sushy-emulator", Manufacturer: "Sushy Emulator", SystemID: "c7a5fdbd-cdaf-9455-926a-d65c16db1809",
			ManagerID:     "58893887-8974-2487-2389-841168418919",
			MediaAtSystem: true, MediaAtManager: true, Slots: []Slot{{ID: "Cd", MediaTypes: []string{"CD", "DVD"}},
				floppy("Floppy")}, Targets: []string{"Pxe", "Cd", "Hdd", "UefiHttp"}, NoSessions: true, NoOnce: true},
	}
}

// ProfileByName finds a profile; false if there is none of that name.
func ProfileByName(name string) (Profile, bool) {
	for _, profile := range Profiles() {
		if profile.Name == name {
			return profile, true
		}
	}
	return Profile{}, false
}

// Fault is something that goes wrong.
type Fault string

// The faults that a BMC can have.
const (
	InUse400         Fault = "insert-in-use-400"  // an insert while something is inserted is answered with 400
	InUse409         Fault = "insert-in-use-409"  // likewise 409
	InUse500         Fault = "insert-in-use-500"  // likewise 500 with VRM0021
	StuckMedia       Fault = "media-stuck"        // what is inserted can't be ejected
	EjectEmpty400    Fault = "eject-empty-400"    // an eject of an empty drive is answered with 400
	EjectKeeps       Fault = "eject-keeps-image"  // the first eject succeeds and keeps the image
	StaleInserted    Fault = "stale-inserted"     // a drive shows for five seconds what it held before
	Insert500Once    Fault = "insert-500-once"    // the first insert fails with 500
	Insert500        Fault = "insert-500"         // each does
	Busy503          Fault = "busy-503"           // the first changes are answered with 503 and Retry-After
	NotReady         Fault = "not-ready"          // the first changes are answered with SYS518
	SessionsFull     Fault = "sessions-full"      // there is no session free, and none without
	SessionEnds      Fault = "session-ends"       // a session ends after some requests
	NoSessionService Fault = "no-session-service" // creating a session is answered with 405
	SelfSigned       Fault = "tls-self-signed"    // the certificate is signed by itself
	Expired          Fault = "tls-expired"        // and has expired
	TLS12            Fault = "tls-1.2"            // no newer TLS than 1.2
	Reset            Fault = "connection-reset"   // some answers break off in the middle
	TaskFails        Fault = "task-fails"         // an insert becomes a task that runs and then fails
	TaskSlow         Fault = "task-slow"          // an insert becomes a task that runs for a while
	Tag412           Fault = "etag-412"           // the first change of a resource is answered with 412
	Tag428           Fault = "etag-428"           // changes without a tag are answered with 428
	BootInPOST       Fault = "boot-during-post"   // boot overrides are refused for some seconds after each reset
	On409            Fault = "on-409-twice"       // the first two attempts to power on are answered with 409
	Off400           Fault = "off-400"            // a power-off of a server that is off is answered with 400
	PowerNull        Fault = "power-null"         // the power is not told
	PowerSlow        Fault = "powering-on"        // the power stays PoweringOn
	PowerStuck       Fault = "power-stuck"        // the server does not go off
	NoReset          Fault = "no-reset"           // the system has no Reset action
	NoRanges         Fault = "no-ranges"          // the BMC fetches images whole, without asking for ranges
	Unreachable      Fault = "image-unreachable"  // the BMC's network does not lead to the image
	NoLicence        Fault = "no-licence"         // virtual media is not licensed
	NoDrives         Fault = "no-drives"          // there are no virtual drives
	Slow             Fault = "slow"               // each answer takes 30 seconds
	WrongPassword    Fault = "wrong-password"     // the credentials are not those
	ReadOnly         Fault = "read-only-user"     // the user may look and not touch
	PowerLost        Fault = "power-lost"         // the BMC is gone for a while in the middle
	Clock1970        Fault = "clock-1970"         // its clock never was set
	SeveralSystems   Fault = "several-systems"    // there are two systems
	NoSystems        Fault = "no-systems"         // there is none
	NotRedfish       Fault = "not-redfish"        // something else answers at that address
	HTTPBootShort    Fault = "http-boot-url-32"   // an URL for UEFI HTTP boot has 32 bytes at most
	HTTPBootPlain    Fault = "http-boot-no-https" // it begins with http:
)

// Faults are all there are.
func Faults() []Fault {
	return []Fault{
		InUse400, InUse409, InUse500, StuckMedia, EjectEmpty400, EjectKeeps, StaleInserted, Insert500Once, Insert500,
		Busy503, NotReady, SessionsFull,
		SessionEnds, NoSessionService, SelfSigned, Expired, TLS12, Reset, TaskFails, TaskSlow, Tag412, Tag428,
		BootInPOST, On409, Off400, PowerNull,
		PowerSlow, PowerStuck, NoReset, NoRanges, Unreachable, NoLicence, NoDrives, Slow, WrongPassword, ReadOnly,
		PowerLost, Clock1970, SeveralSystems,
		NoSystems, NotRedfish, HTTPBootShort, HTTPBootPlain,
	}
}
