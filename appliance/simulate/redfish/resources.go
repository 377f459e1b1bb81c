package redfish

import (
	"slices"
	"strconv"
	"strings"
)

type fields = map[string]any

func link(path string) fields { return fields{"@odata.id": path} }

func collection(path, kind string, members ...string) fields {
	links := []any{}
	for _, member := range members {
		links = append(links, link(member))
	}
	return fields{"@odata.id": path, "@odata.type": "#" + kind + "." + kind, "Members": links,
		"Members@odata.count": len(links)}
}

func (b *BMC) systemPath() string  { return root + "/Systems/" + b.options.Profile.SystemID }
func (b *BMC) managerPath() string { return root + "/Managers/" + b.options.Profile.ManagerID }

func (b *BMC) serviceRoot() fields {
	p := b.options.Profile
	service := fields{
		"@odata.id": root, "@odata.type": "#ServiceRoot.v1_15_0.ServiceRoot", "Id": "RootService",
		"Name": "Root Service", "RedfishVersion": "1.15.1",
		"UUID": b.options.UUID, "Vendor": p.Vendor, "Systems": link(root + "/Systems"),
		"Managers": link(root + "/Managers"), "Chassis": link(root + "/Chassis"),
		"Tasks": link(root + "/TaskService"),
	}
	if !p.NoSessions {
		service["SessionService"] = link(root + "/SessionService")
		service["Links"] = fields{"Sessions": link(root + "/SessionService/Sessions")}
	}
	return service
}

// resource returns the resource at a path, or nil. The caller holds the mutex.
func (b *BMC) resource(path string) fields {
	p := b.options.Profile
	switch path {
	case root + "/Systems":
		return collection(path, "ComputerSystemCollection", b.systemPaths()...)
	case root + "/Managers":
		members := []string{b.managerPath()}
		if p.Junk {
			members = append([]string{root + "/Managers/Gone"}, members...)
		}
		return collection(path, "ManagerCollection", members...)
	case b.systemPath():
		return b.system(path)
	case root + "/Systems/Second":
		if b.has(SeveralSystems) {
			return b.system(path)
		}
	case root + "/Systems/HGX_Baseboard_0":
		if p.Junk {
			return fields{"@odata.id": path, "@odata.type": "#ComputerSystem.v1_17_0.ComputerSystem",
				"Id": "HGX_Baseboard_0", "SystemType": "Physical"}
		}
	case b.systemPath() + "/ResetActionInfo":
		return fields{"@odata.id": path, "Id": "ResetActionInfo",
			"Parameters": []any{fields{"Name": "ResetType", "DataType": "String", "AllowableValues": resetTypes}}}
	case b.systemPath() + "/Settings":
		if p.SettingsBoot {
			return fields{"@odata.id": path, "@odata.etag": b.tag(path), "Id": "Settings",
				"Boot": fields{"BootSourceOverrideTarget": "None"}}
		}
	case b.systemPath() + "/EthernetInterfaces":
		var paths []string
		for i := range b.options.MACs {
			paths = append(paths, path+"/"+strconv.Itoa(i+1))
		}
		return collection(path, "EthernetInterfaceCollection", paths...)
	case b.managerPath():
		return b.manager(path)
	case b.managerPath() + "/Attributes":
		if p.CdIsPhysical {
			return fields{"@odata.id": path, "@odata.etag": b.tag(path), "Id": "iDRACAttributes",
				"Attributes": fields{"ServerBoot.1.BootOnce": b.dellBoot["ServerBoot.1.BootOnce"]}}
		}
	}
	return b.listed(path)
}

// listed returns the resource at the path of a collection's member.
func (b *BMC) listed(path string) fields {
	if number, ok := strings.CutPrefix(path, b.systemPath()+"/EthernetInterfaces/"); ok {
		if i, err := strconv.Atoi(number); err == nil && i >= 1 && i <= len(b.options.MACs) {
			return fields{"@odata.id": path, "Id": number, "MACAddress": strings.ToUpper(b.options.MACs[i-1]),
				"PermanentMACAddress": strings.ToUpper(b.options.MACs[i-1])}
		}
	}
	if id, ok := strings.CutPrefix(path, root+"/TaskService/Tasks/"); ok {
		return b.taskAt(path, id)
	}
	for _, base := range b.mediaPaths() {
		if path == base {
			var members []string
			if !b.has(NoDrives) {
				for _, device := range b.options.Profile.MediaDevices {
					members = append(members, base+"/"+device.ID)
				}
			}
			return collection(path, "VirtualMediaCollection", members...)
		}
		if id, ok := strings.CutPrefix(path, base+"/"); ok && b.drives[id] != nil {
			return b.drive(path, b.drives[id])
		}
	}
	return nil
}

func (b *BMC) systemPaths() []string {
	switch {
	case b.has(NoSystems):
		return nil
	case b.has(SeveralSystems):
		return []string{b.systemPath(), root + "/Systems/Second"}
	case b.options.Profile.Junk:
		return []string{root + "/Systems/HGX_Baseboard_0", root + "/Systems/Gone", b.systemPath()}
	}
	return []string{b.systemPath()}
}

func (b *BMC) mediaPaths() []string {
	var paths []string
	if b.options.Profile.MediaAtSystem {
		paths = append(paths, b.systemPath()+"/VirtualMedia")
	}
	if b.options.Profile.MediaAtManager {
		paths = append(paths, b.managerPath()+"/VirtualMedia")
	}
	return paths
}

var resetTypes = []string{"On", "ForceOff", "GracefulShutdown", "ForceRestart", "PushPowerButton"}

func (b *BMC) system(path string) fields {
	p := b.options.Profile
	reset := fields{"target": path + "/Actions/ComputerSystem.Reset"}
	if p.ResetByInfo {
		reset["@Redfish.ActionInfo"] = path + "/ResetActionInfo"
	} else {
		reset["ResetType@Redfish.AllowableValues"] = resetTypes
	}
	system := fields{
		"@odata.id": path, "@odata.type": "#ComputerSystem.v1_17_0.ComputerSystem", "@odata.etag": b.tag(path),
		"Id": p.SystemID, "Name": "System",
		"UUID": b.options.UUID, "Manufacturer": p.Manufacturer, "Model": p.Model, "SerialNumber": b.options.Serial,
		"BiosVersion": "2.1.0", "SystemType": "Physical",
		"MemorySummary": fields{"TotalSystemMemoryGiB": 64}, "ProcessorSummary": fields{"Count": 2},
		"PowerState": b.power,
		"Boot": fields{
			"BootSourceOverrideTarget": b.boot["Target"], "BootSourceOverrideEnabled": b.boot["Enabled"],
			"BootSourceOverrideMode":                           b.boot["Mode"],
			"BootSourceOverrideTarget@Redfish.AllowableValues": p.Targets,
		},
		"Links": fields{"ManagedBy": []any{link(b.managerPath())}}, "Actions": fields{"#ComputerSystem.Reset": reset},
	}
	if slices.Contains(p.Targets, "UefiHttp") {
		system["Boot"].(fields)["HttpBootUri"] = b.boot["HttpBootUri"]
	}
	if len(b.options.MACs) > 0 {
		system["EthernetInterfaces"] = link(path + "/EthernetInterfaces")
	}
	if p.MediaAtSystem {
		system["VirtualMedia"] = link(b.systemPath() + "/VirtualMedia")
	}
	if p.SettingsBoot {
		system["@Redfish.Settings"] = fields{"SettingsObject": link(path + "/Settings")}
	}
	if b.has(PowerNull) {
		system["PowerState"] = nil
	}
	if b.has(NoReset) {
		delete(system, "Actions")
	}
	if p.OddTypes {
		system["MemorySummary"] = fields{"TotalSystemMemoryGiB": "64"}
		system["ProcessorSummary"] = nil
		system["IndicatorLED"] = 7
	}
	return system
}

func (b *BMC) manager(path string) fields {
	p := b.options.Profile
	manager := fields{"@odata.id": path, "@odata.type": "#Manager.v1_15_0.Manager", "Id": p.ManagerID,
		"ManagerType": "BMC", "Model": p.BMCModel, "FirmwareVersion": p.Firmware}
	if p.MediaAtManager {
		manager["VirtualMedia"] = link(path + "/VirtualMedia")
	}
	return manager
}

func (b *BMC) drive(path string, d *drive) fields {
	image := d.image
	if image == "" && b.clock.Now().Before(d.stale) {
		image = d.shown
	}
	if image == "" && d.kept {
		image = d.shown
	}
	shown := fields{
		"@odata.id": path, "@odata.type": "#VirtualMedia.v1_6_0.VirtualMedia", "@odata.etag": b.tag(path), "Id": d.ID,
		"MediaTypes": d.MediaTypes,
		"Image":      nil, "ImageName": nil, "Inserted": false, "ConnectedVia": "NotConnected", "WriteProtected": true,
	}
	if image != "" {
		shown["Image"], shown["ConnectedVia"], shown["Inserted"] = image, "URI", d.image != "" || !d.kept
		shown["ImageName"] = image[strings.LastIndex(image, "/")+1:]
	}
	if !b.options.Profile.Written && !slices.Contains(d.MediaTypes, "Floppy") {
		shown["Actions"] = fields{
			"#VirtualMedia.InsertMedia": fields{"target": path + "/Actions/VirtualMedia.InsertMedia"},
			"#VirtualMedia.EjectMedia":  fields{"target": path + "/Actions/VirtualMedia.EjectMedia"},
		}
	}
	if b.options.Profile.OddTypes {
		shown["Inserted"] = strconv.FormatBool(shown["Inserted"] == true)
		shown["WriteProtected"] = 1
	}
	return shown
}

func (b *BMC) taskAt(path, id string) fields {
	t := b.tasks[id]
	if t == nil {
		return nil
	}
	state, messages := "Running", []any{}
	if !b.clock.Now().Before(t.ends) {
		state = "Completed"
		if t.fails {
			state = "Exception"
			messages = append(messages, fields{"MessageId": "IDRAC.2.8.RAC0904",
				"Message": "Unable to locate the ISO or IMG image file or folder in the network share location " +
					"because the file or folder path or the user credentials entered are incorrect."})
		}
	}
	return fields{"@odata.id": path, "@odata.type": "#Task.v1_5_0.Task", "Id": id, "TaskState": state,
		"Messages": messages}
}
