package explain

import "github.com/codehub/gateway/coordinator/workspace"

// Advice is what a reason means and what to do about it. It is read in the dashboard and
// on the command line, so it names choices and not the flags that make them.
type Advice struct{ Meaning, Remedy Text }

// errorAdvice has a row for every reason for ERROR (SPEC 3).
var errorAdvice = map[workspace.ErrorReason]Advice{
	workspace.ReasonTimeout: {
		Text{"An operation took longer than its limit.", "작업이 제한 시간을 넘겼습니다."},
		Text{"Look for what held it up (the " + Backend.En + ", the object store, a very large home), raise the operation's timeout if the work is simply long, then recover the workspace.",
			"지연 원인(" + Backend.Ko + ", 오브젝트 스토리지, 매우 큰 홈)을 확인하고, 원래 오래 걸리는 작업이면 제한 시간을 늘린 뒤 복구하세요."},
	},
	workspace.ReasonRetryExceeded: {
		Text{"An operation has failed too many times.", "작업이 너무 여러 번 실패했습니다."},
		Text{"Remove the cause that the message names, then recover the workspace.", "메시지에 나온 원인을 해결한 뒤 복구하세요."},
	},
	workspace.ReasonActionFailed: {
		Text{"A step failed.", "단계가 실패했습니다."},
		Text{"It is tried again by itself. If it goes on failing, remove the cause that the message names.", "자동으로 다시 시도합니다. 계속 실패하면 메시지에 나온 원인을 해결하세요."},
	},
	workspace.ReasonDataLost: {
		Text{"Files that must exist are gone: neither the volume nor a current archive was found.", "있어야 할 파일이 없습니다. 볼륨도 최신 보관본도 찾지 못했습니다."},
		Text{"Check that the right host and data folder and the right bucket are connected. If the volume or the archive is back, recover the workspace; otherwise recover it and choose an archive or an empty home.",
			"올바른 호스트와 데이터 폴더, 올바른 버킷에 연결되었는지 확인하세요. 볼륨이나 보관본이 돌아왔으면 복구하고, 아니면 보관본이나 빈 홈을 선택해 복구하세요."},
	},
	workspace.ReasonUnreachable: {
		Text{"Something that the operation needs could not be reached.", "작업에 필요한 자원에 연결할 수 없었습니다."},
		Text{"It is tried again by itself. Check the network and the service that the message names.", "자동으로 다시 시도합니다. 네트워크와 메시지에 나온 서비스를 확인하세요."},
	},
	workspace.ReasonImagePullFailed: {
		Text{"The image of the workspace could not be pulled.", "워크스페이스의 이미지를 가져올 수 없습니다."},
		Text{"Check the image's name, the registry and its credentials, then recover the workspace.", "이미지 이름, 레지스트리, 인증 정보를 확인한 뒤 복구하세요."},
	},
	workspace.ReasonContainerWithoutVolume: {
		Text{"A container runs without the workspace's own volume, so what is written there would not be kept.", "컨테이너가 워크스페이스의 볼륨 없이 실행 중이라 그곳에 쓴 내용은 보존되지 않습니다."},
		Text{"Save what people have written in the container, then recover the workspace and choose the volume, an archive or an empty home.",
			"컨테이너 안의 내용을 따로 저장한 뒤 볼륨, 보관본, 빈 홈 중에서 선택해 복구하세요."},
	},
	workspace.ReasonArchiveCorrupted: {
		Text{"The archive is not what was written: its checksum or its size differs.", "보관본이 기록된 것과 다릅니다. 체크섬이나 크기가 일치하지 않습니다."},
		Text{"Recover the workspace and choose its volume if that is intact, another archive or an empty home. Check the object store's disks.",
			"볼륨이 온전하면 볼륨, 아니면 다른 보관본이나 빈 홈 중에서 선택해 복구하고 오브젝트 스토리지의 디스크를 점검하세요."},
	},
	workspace.ReasonConflict: {
		Text{"A volume or an archive exists that the database does not know and that may be newer.", "데이터베이스가 모르는, 더 새로울 수 있는 볼륨이나 보관본이 있습니다."},
		Text{"The database may be an older one: check whether it was restored from a backup. Then recover the workspace and choose the volume that exists, or an archive in its place.",
			"데이터베이스가 백업에서 복원된 옛것인지 확인하세요. 그런 다음 있는 볼륨이나 그 자리를 대신할 보관본을 선택해 복구하세요."},
	},
}

// waitAdvice has a row for every reason for waiting.
var waitAdvice = map[string]Advice{
	workspace.WaitStoreAway: {
		Text{"It waits for the object store, which does not answer.", "응답하지 않는 오브젝트 스토리지를 기다리고 있습니다."},
		Text{"Check that the object store runs and can be reached. It goes on by itself.", "오브젝트 스토리지가 실행 중이고 연결되는지 확인하세요. 이후 자동으로 계속됩니다."},
	},
	workspace.WaitStoreRefuses: {
		Text{"It waits because the object store refuses the request.", "오브젝트 스토리지가 요청을 거부하여 기다리고 있습니다."},
		Text{"Check the credentials, the bucket's policy and the object that the message names. It goes on by itself.", "인증 정보, 버킷 정책, 메시지에 나온 객체를 확인하세요. 이후 자동으로 계속됩니다."},
	},
	workspace.WaitBucketMismatch: {
		Text{"It waits because the bucket is not the one that this installation recorded.", "이 설치에 기록된 버킷이 아니어서 기다리고 있습니다."},
		Text{"Connect the right bucket, or accept this one with caddy codehub accept bucket.", "올바른 버킷에 연결하거나 caddy codehub accept bucket 명령으로 이 버킷을 받아들이세요."},
	},
	workspace.WaitBackendAway: {
		Text{"It waits for the " + Backend.En + ", which does not answer.", "응답하지 않는 " + Backend.Ko + "를 기다리고 있습니다."},
		Text{"Check that the " + Backend.En + " runs and can be reached. It goes on by itself.", Backend.Ko + "가 실행 중이고 연결되는지 확인하세요. 이후 자동으로 계속됩니다."},
	},
	workspace.WaitBackendMismatch: {
		Text{"It waits because the " + Backend.En + " is not the one that this installation recorded.", "이 설치에 기록된 " + Backend.Ko + "가 아니어서 기다리고 있습니다."},
		Text{"Connect the right one (Docker: DOCKER_HOST, the mounted data folder; Kubernetes: kubeconfig, context and namespace), or accept this one with caddy codehub accept backend.",
			"올바른 것(Docker는 DOCKER_HOST와 마운트된 데이터 폴더, Kubernetes는 kubeconfig, context, namespace)에 연결하거나 caddy codehub accept backend 명령으로 지금 것을 받아들이세요."},
	},
	workspace.WaitArchiveFailed: {
		Text{"Archiving it has failed; its volume is intact and can be opened.", "보관에 실패했지만 볼륨은 온전하며 열 수 있습니다."},
		Text{"It is tried again by itself. If it goes on failing, remove the cause that the message names.", "자동으로 다시 시도합니다. 계속 실패하면 메시지에 나온 원인을 해결하세요."},
	},
	workspace.WaitDeletionFailed: {
		Text{"Removing it has failed.", "제거에 실패했습니다."},
		Text{"It is tried again by itself. If it goes on failing, remove the cause that the message names.", "자동으로 다시 시도합니다. 계속 실패하면 메시지에 나온 원인을 해결하세요."},
	},
	workspace.WaitKeptUntilDeleted: {
		Text{"Its volume is the only copy of its files and stays for a while, so that the deletion can be undone.", "볼륨이 파일의 유일한 사본이어서 삭제를 취소할 수 있도록 한동안 남겨 둡니다."},
		Text{"Nothing is to do. Undelete it to have the files back; an administrator can also give them up at once.", "할 일은 없습니다. 파일이 필요하면 삭제를 취소하세요. 관리자는 파일을 바로 포기할 수도 있습니다."},
	},
	workspace.WaitKeptUntilGivenUp: {
		Text{"Its volume may be the only copy of its files and stays until the deletion is undone or an administrator gives it up.",
			"볼륨이 파일의 유일한 사본일 수 있어, 삭제를 취소하거나 관리자가 포기할 때까지 남겨 둡니다."},
		Text{"Undelete it to have the files back, or give them up: an administrator deletes it at once.",
			"파일이 필요하면 삭제를 취소하세요. 필요 없으면 관리자가 즉시 삭제로 파일을 포기할 수 있습니다."},
	},
	workspace.WaitPullingImage: {
		Text{"It waits for its image, which is being pulled.", "이미지를 내려받는 중이라 기다리고 있습니다."},
		Text{"Nothing is to do; large images take minutes on a host that does not have them.", "할 일은 없습니다. 큰 이미지는 처음 받을 때 몇 분 걸립니다."},
	},
	workspace.WaitArchiveLocked: {
		Text{"Its archive is encrypted to keys that this server does not have.", "보관본이 이 서버에 없는 키로 암호화되어 있습니다."},
		Text{"Add the secret key of one of its recipients to the file of the setting encryption identities, and reload. It goes on by itself. If the key is lost, nobody can open the archive.",
			"수신자 중 하나의 비밀 키를 encryption identities 설정의 파일에 추가하고 다시 불러오세요. 이후 자동으로 계속됩니다. 키를 잃어버렸다면 누구도 보관본을 열 수 없습니다."},
	},
	workspace.WaitJobImage: {
		Text{"It waits for the image of storage jobs, which cannot be pulled or is not of this release.", "스토리지 작업의 이미지를 가져올 수 없거나 이 릴리스의 것이 아니어서 기다리고 있습니다."},
		Text{"Set job_image to the image of this release, which the message names, or build it by make image. It goes on by itself as soon as the image is there.",
			"job_image를 메시지에 나온 이 릴리스의 이미지로 설정하거나 make image로 빌드하세요. 이미지가 준비되면 바로 자동으로 계속됩니다."},
	},
	workspace.WaitEgressRules: {
		Text{"It waits because the rules about what workspaces reach do not stand, and nothing starts without them.", "워크스페이스가 접속할 수 있는 곳을 제한하는 규칙이 없어 기다리고 있습니다. 규칙 없이는 아무것도 시작하지 않습니다."},
		Text{"Remove the cause that the message names; caddy codehub doctor tries it. It goes on by itself when the rules stand. With egress enforce open, workspaces start without rules.",
			"메시지에 나온 원인을 해결하세요. caddy codehub doctor로 확인할 수 있습니다. 규칙이 적용되면 자동으로 계속됩니다. egress enforce를 open으로 설정하면 규칙 없이 시작합니다."},
	},
	workspace.WaitUnhealthy: {
		Text{"Its container runs, but its health check fails.", "컨테이너는 실행 중이지만 상태 검사가 실패합니다."},
		Text{"Look at what runs in the workspace; stop and start it if it does not recover by itself.", "워크스페이스 안에서 무엇이 도는지 확인하고, 저절로 회복되지 않으면 멈췄다가 시작하세요."},
	},
	workspace.WaitPaused: {
		Text{"Its container was paused outside of this system.", "컨테이너가 이 시스템 밖에서 일시 중지되었습니다."},
		Text{"Unpause the container on its host (docker unpause).", "호스트에서 컨테이너의 일시 중지를 푸세요(docker unpause)."},
	},
	workspace.WaitDiskPressure: {
		Text{"It waits for room on the disk of the homes.", "홈 디스크에 공간이 생기기를 기다리고 있습니다."},
		Text{"Sleeping workspaces are archived by themselves, the longest asleep first, and it goes on as soon as there is room. If it stays like this, free space on the disk or make it larger.",
			"오래 잠든 워크스페이스부터 자동으로 보관하며, 공간이 생기면 바로 계속됩니다. 계속 이 상태라면 디스크를 비우거나 늘리세요."},
	},
	workspace.WaitJobQueue: {
		Text{"It waits in the queue of storage jobs: as many run as may at once.", "동시에 실행할 수 있는 스토리지 작업이 모두 실행 중이어서 차례를 기다리고 있습니다."},
		Text{"Nothing is to do; what a person waits for goes first. If the queue stays long, an administrator can let more run at once with the setting max_jobs.",
			"할 일은 없습니다. 사람이 기다리는 작업이 먼저 실행됩니다. 대기가 계속 길면 관리자가 max_jobs 설정으로 동시에 실행할 수를 늘릴 수 있습니다."},
	},
	workspace.WaitUnschedulable: {
		Text{"It waits for a node: the cluster has no free one for it.", "클러스터에 빈 노드가 없어 기다리고 있습니다."},
		Text{"Add a node, free some, or lower what workspaces ask for in the settings (resources, node selector, tolerations); the message says what is short. It goes on by itself as soon as there is a node.",
			"노드를 추가하거나 비우거나, 설정에서 워크스페이스가 요구하는 것(자원, 노드 셀렉터, 톨러레이션)을 줄이세요. 무엇이 모자라는지는 메시지에 있습니다. 노드가 생기면 바로 자동으로 계속됩니다."},
	},
	workspace.WaitVolume: {
		Text{"It waits for its volume, which cannot be used at the moment.", "지금 쓸 수 없는 볼륨을 기다리고 있습니다."},
		Text{"See the message: the storage class may make no volume, the volume may be on a node that is away or still attached to another one, or somebody has deleted its claim. Nothing of it is deleted meanwhile, and it goes on by itself when the volume can be used.",
			"메시지를 확인하세요. 스토리지 클래스가 볼륨을 만들지 못하거나, 볼륨이 응답하지 않는 노드에 있거나 아직 다른 노드에 붙어 있거나, 누군가 클레임을 삭제했을 수 있습니다. 그동안 아무것도 지우지 않으며 볼륨을 쓸 수 있게 되면 자동으로 계속됩니다."},
	},
	workspace.WaitQuota: {
		Text{"It waits because a quota of the cluster is used up.", "클러스터의 할당량을 다 써서 기다리고 있습니다."},
		Text{"Put workspaces to sleep, or raise the quota that the message names (ResourceQuota). It goes on by itself when there is room.", "워크스페이스를 재우거나 메시지에 나온 할당량(ResourceQuota)을 늘리세요. 여유가 생기면 자동으로 계속됩니다."},
	},
	workspace.WaitEvicted: {
		Text{"The cluster, its host or somebody has ended its container or its storage job, or the result of the job cannot be read. It is started again.",
			"클러스터나 호스트, 또는 누군가가 컨테이너나 스토리지 작업을 끝냈거나 작업 결과를 읽을 수 없어서 다시 시작합니다."},
		Text{"Nothing is to do; it goes on by itself. If it happens again and again, the message says what ends it.", "할 일은 없습니다. 자동으로 계속됩니다. 되풀이된다면 무엇이 끝내는지 메시지를 확인하세요."},
	},
	workspace.WaitNodeLost: {
		Text{"Its node does not report any more. What runs there may go on, and its files are where they were.", "노드가 응답하지 않습니다. 그곳에서 돌던 것은 계속 돌고 있을 수 있으며 파일은 그대로 있습니다."},
		Text{"Look at the node that the message names, and bring it back; the workspace recovers by itself. If the machine is off for good, stop the workspace and follow what the message says then.",
			"메시지에 나온 노드를 확인하고 되살리세요. 워크스페이스는 저절로 회복됩니다. 서버가 영영 꺼졌다면 워크스페이스를 멈추고 그때 메시지에 나오는 안내를 따르세요."},
	},
	workspace.WaitTerminating: {
		Text{"It waits for its container to end: the node has not confirmed that it has.", "컨테이너가 끝나기를 기다리고 있습니다. 노드가 아직 종료를 확인하지 않았습니다."},
		Text{"It goes on by itself when the node confirms. If it stays like this, look at the node that the message names. Deleting the Pod by force does not help: its volume is not free before the node says so.",
			"노드가 확인하면 자동으로 계속됩니다. 계속 이 상태라면 메시지에 나온 노드를 확인하세요. Pod를 강제로 삭제해도 소용없습니다. 노드가 알리기 전에는 볼륨을 쓸 수 없습니다."},
	},
	workspace.WaitContainer: {
		Text{"It waits for its node, which cannot make its container yet.", "노드가 아직 컨테이너를 만들지 못해 기다리고 있습니다."},
		Text{"It is tried again by itself. If it goes on, remove the cause that the message names, or look at the node.", "자동으로 다시 시도합니다. 계속되면 메시지에 나온 원인을 해결하거나 노드를 확인하세요."},
	},
	workspace.WaitConflict: {
		Text{"Its container runs on a volume that the database does not know.", "컨테이너가 데이터베이스가 모르는 볼륨에서 실행 중입니다."},
		Text{"People can go on working. Check whether the database was restored from an older backup. Then recover the workspace and keep its volume; to choose an archive in its place, put the workspace to sleep first.",
			"계속 작업할 수 있습니다. 데이터베이스가 옛 백업에서 복원되었는지 확인하세요. 그런 다음 볼륨을 유지하도록 복구하세요. 대신 보관본을 선택하려면 먼저 워크스페이스를 재우세요."},
	},
}

// unknownAdvice is for a reason that a newer process has written.
var unknownAdvice = Advice{
	Text{"It has a reason that this version does not know.", "이 버전이 모르는 이유입니다."},
	Text{"See the message.", "메시지를 확인하세요."},
}

func adviceOnError(r workspace.ErrorReason) Advice {
	if a, ok := errorAdvice[r]; ok {
		return a
	}
	return unknownAdvice
}

func adviceOnWait(reason string) Advice {
	if a, ok := waitAdvice[reason]; ok {
		return a
	}
	return unknownAdvice
}

// KnownError reports whether r is one of the reasons for ERROR.
func KnownError(r workspace.ErrorReason) bool { _, ok := errorAdvice[r]; return ok }
