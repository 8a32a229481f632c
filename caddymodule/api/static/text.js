// Texts in English and Korean, and the language switch. The browser's language
// decides until the user has chosen.

const texts = {
  en: {
    other: "한국어",
    title: "Workspaces · CodeHub",
    sign_in_title: "Sign in · CodeHub",
    sign_in: "Sign in",
    sign_out: "Sign out",
    username: "User name",
    password: "Password",
    skip: "Skip to the workspaces",
    workspaces: "Workspaces",
    new_workspace: "New workspace",
    name: "Name",
    description: "Description (optional)",
    create: "Create",
    empty: "No workspaces yet. Enter a name and create one.",
    cancel: "Cancel",
    open: "Open",
    open_label: (name) => `Open ${name} in a new tab`,
    start: "Start",
    sleep: "Sleep",
    archive: "Archive",
    recover: "Recover",
    delete: "Delete",
    action_label: (action, name) => `${action}: ${name}`,
    delete_title: (name) => `Delete “${name}”?`,
    delete_text: "The workspace will be stopped. For a while you can undo this at the end of this page; then its files are deleted for good.",
    deleted_title: "Deleted workspaces",
    deleted_text: "Their files are kept for a while, and until then the deletion can be undone.",
    undelete: "Undo",
    until: (time) => `Can be undone until ${time} at least`,
    until_soon: "Its files may be deleted at any moment",
    details: "Details",
    details_label: (name) => `Details of ${name}`,
    why: "Why", waits: "It waits for", next: "What comes next", asked: "Asked for", error_now: "Error", error_before: "Earlier error", remedy: "What to do",
    problems_title: "Needs an administrator",
    recovery_title: (name) => `Recover “${name}”`,
    recovery_text: (reason) => `The workspace is in ERROR (${reason}), and only you can tell which files are the right ones.`,
    recovery_legend: "This exists. With which files should it continue?",
    choice_volume: (time) => time ? `Keep the files on the volume, made ${time}` : "Keep the files on the volume",
    choice_archive: (time, size, current) => `Take the archive of ${time}, ${size}${current ? ", the one on record" : ""}`,
    choice_empty: "Start with an empty home",
    replaces_volume: "The volume that exists is deleted for this, with all files on it.",
    replace_title: "Delete the files on the volume?",
    replace_text: (name) => `The present volume of “${name}” is deleted. Nobody can undo this.`,
    replace: "Delete and recover",
    connecting: "Connecting…",
    live: "Live",
    lost: "Connection lost, reconnecting…",
    phase: {
      PENDING: "New", ARCHIVED: "Archived", STANDBY: "Asleep", RUNNING: "Running",
      ERROR: "Error", DELETING: "Deleting", DELETED: "Deleted",
    },
    operation: {
      CREATE_EMPTY_ARCHIVE: "Creating an empty archive", PROVISIONING: "Creating the volume", RESTORING: "Restoring the files",
      STARTING: "Starting", STOPPING: "Stopping", ARCHIVING: "Archiving the files", DELETING: "Deleting",
    },
    for_seconds: (n) => n < 60 ? `${n} s` : `${Math.floor(n / 60)} min ${n % 60} s`,
    desired: { RUNNING: "Will start in a moment", STANDBY: "Will go to sleep in a moment", ARCHIVED: "Will be archived in a moment" },
    used: (ago) => `Last used ${ago}`,
    never_used: "Not used yet",
    failed: (reason) => `Error: ${reason}`,
    failed_title: "Workspaces of other users in ERROR",
    failed_more: "There are more. Many at once: caddy codehub workspace recover --reason REASON --all",
    owner: (name) => `of ${name}`,
    ask_admin: "An administrator can recover it.",
    problem: {
      "bad-credentials": "Wrong user name or password.",
      "not-signed-in": "Your session has ended. Sign in again.",
      "operation-in-progress": "Another operation is in progress for this workspace. Wait until it has finished, then try again.",
      "not-found": "Not found. The workspace may have been deleted.",
      "forbidden": "Only administrators can do this.",
      "unavailable": "The service is not available at the moment. Try again shortly.",
      "files-unknown": "It is not known which files exist, because the container engine or the object store does not answer as the one on record, or archives are being collected. Nothing was changed; try again in a few minutes.",
      "deleted": "The workspace is deleted. Undelete it first.",
      "collected": "It is too late: the files are being deleted.",
    },
    limit_user: (limit, names) => `At most ${limit} of your workspaces can run at a time. Put one to sleep first${names ? `: ${names}` : ""}.`,
    limit_global: (limit) => `This server runs at most ${limit} workspaces at a time, and that many are running. Try again later.`,
    unreachable: "The server does not answer. Check your connection and try again.",
    unexpected: (status) => `The request failed (${status}).`,
    name_needed: "Enter a name for the workspace.",
  },
  ko: {
    other: "English",
    title: "워크스페이스 · CodeHub",
    sign_in_title: "로그인 · CodeHub",
    sign_in: "로그인",
    sign_out: "로그아웃",
    username: "사용자 이름",
    password: "비밀번호",
    skip: "워크스페이스 목록으로 바로 가기",
    workspaces: "워크스페이스",
    new_workspace: "새 워크스페이스",
    name: "이름",
    description: "설명 (선택)",
    create: "만들기",
    empty: "아직 워크스페이스가 없습니다. 이름을 입력하고 만들어 보세요.",
    cancel: "취소",
    open: "열기",
    open_label: (name) => `새 탭에서 ${name} 열기`,
    start: "시작",
    sleep: "재우기",
    archive: "보관",
    recover: "복구",
    delete: "삭제",
    action_label: (action, name) => `${action}: ${name}`,
    delete_title: (name) => `“${name}” 워크스페이스를 삭제할까요?`,
    delete_text: "워크스페이스를 중지합니다. 얼마 동안은 이 페이지 아래쪽에서 되돌릴 수 있고, 그 뒤에는 파일이 완전히 삭제됩니다.",
    deleted_title: "삭제한 워크스페이스",
    deleted_text: "파일은 얼마 동안 남아 있으며, 그동안은 삭제를 되돌릴 수 있습니다.",
    undelete: "되돌리기",
    until: (time) => `적어도 ${time}까지 되돌릴 수 있음`,
    until_soon: "파일이 곧 삭제될 수 있음",
    details: "자세히",
    details_label: (name) => `${name} 자세히`,
    why: "이유", waits: "기다리는 것", next: "다음에 일어날 일", asked: "요청", error_now: "오류", error_before: "지난 오류", remedy: "조치",
    problems_title: "관리자의 조치가 필요합니다",
    recovery_title: (name) => `“${name}” 복구`,
    recovery_text: (reason) => `워크스페이스가 오류 상태입니다(${reason}). 어느 파일이 맞는지는 직접 골라야 합니다.`,
    recovery_legend: "남아 있는 것은 다음과 같습니다. 어느 파일로 계속할까요?",
    choice_volume: (time) => time ? `볼륨에 있는 파일을 그대로 사용(볼륨 생성: ${time})` : "볼륨에 있는 파일을 그대로 사용",
    choice_archive: (time, size, current) => `${time} 보관본 사용, ${size}${current ? ", 기록된 보관본" : ""}`,
    choice_empty: "빈 홈으로 시작",
    replaces_volume: "이렇게 하면 지금 있는 볼륨과 그 안의 모든 파일이 삭제됩니다.",
    replace_title: "볼륨의 파일을 삭제할까요?",
    replace_text: (name) => `“${name}”의 지금 볼륨을 삭제합니다. 아무도 되돌릴 수 없습니다.`,
    replace: "삭제하고 복구",
    connecting: "연결 중…",
    live: "실시간 연결됨",
    lost: "연결이 끊겨 다시 연결하는 중…",
    phase: {
      PENDING: "생성 대기", ARCHIVED: "보관됨", STANDBY: "잠자는 중", RUNNING: "실행 중",
      ERROR: "오류", DELETING: "삭제 중", DELETED: "삭제됨",
    },
    operation: {
      CREATE_EMPTY_ARCHIVE: "빈 보관본을 만드는 중", PROVISIONING: "볼륨을 만드는 중", RESTORING: "파일을 복원하는 중",
      STARTING: "시작하는 중", STOPPING: "중지하는 중", ARCHIVING: "파일을 보관하는 중", DELETING: "삭제하는 중",
    },
    for_seconds: (n) => n < 60 ? `${n}초` : `${Math.floor(n / 60)}분 ${n % 60}초`,
    desired: { RUNNING: "곧 시작됩니다", STANDBY: "곧 잠듭니다", ARCHIVED: "곧 보관됩니다" },
    used: (ago) => `마지막 사용: ${ago}`,
    never_used: "아직 사용하지 않음",
    failed: (reason) => `오류: ${reason}`,
    failed_title: "오류 상태인 다른 사용자의 워크스페이스",
    failed_more: "더 있습니다. 한꺼번에 복구하려면: caddy codehub workspace recover --reason REASON --all",
    owner: (name) => `소유자: ${name}`,
    ask_admin: "관리자가 복구할 수 있습니다.",
    problem: {
      "bad-credentials": "사용자 이름 또는 비밀번호가 올바르지 않습니다.",
      "not-signed-in": "세션이 만료되었습니다. 다시 로그인하세요.",
      "operation-in-progress": "이 워크스페이스에서 다른 작업이 진행 중입니다. 작업이 끝난 뒤 다시 시도하세요.",
      "not-found": "워크스페이스를 찾을 수 없습니다. 삭제되었을 수 있습니다.",
      "forbidden": "관리자만 할 수 있는 작업입니다.",
      "unavailable": "지금은 서비스를 이용할 수 없습니다. 잠시 후 다시 시도하세요.",
      "files-unknown": "컨테이너 엔진이나 오브젝트 스토리지가 기록된 것으로서 응답하지 않거나 아카이브를 정리하고 있어, 어떤 파일이 남아 있는지 알 수 없습니다. 아무것도 바꾸지 않았습니다. 몇 분 뒤 다시 시도하세요.",
      "deleted": "삭제된 워크스페이스입니다. 먼저 삭제를 취소하세요.",
      "collected": "너무 늦었습니다. 파일을 삭제하고 있습니다.",
    },
    limit_user: (limit, names) => `동시에 실행할 수 있는 워크스페이스는 최대 ${limit}개입니다. 먼저 하나를 재우세요${names ? `: ${names}` : ""}.`,
    limit_global: (limit) => `이 서버에서는 워크스페이스를 최대 ${limit}개까지 동시에 실행할 수 있는데, 지금은 빈자리가 없습니다. 나중에 다시 시도하세요.`,
    unreachable: "서버가 응답하지 않습니다. 연결을 확인하고 다시 시도하세요.",
    unexpected: (status) => `요청을 처리하지 못했습니다(${status}).`,
    name_needed: "워크스페이스 이름을 입력하세요.",
  },
};

// What a workspace waits for, in Korean; in English the server says it in its own words.
const waitsInKorean = {
  StoreAway: () => "오브젝트 스토리지가 응답하기를 기다리고 있습니다.",
  StoreRefuses: () => "오브젝트 스토리지가 요청을 거부합니다. 관리자가 확인해야 합니다.",
  BucketMismatch: () => "버킷이 기록된 것과 다릅니다. 관리자가 확인해야 합니다.",
  BackendAway: () => "컨테이너 엔진이 응답하기를 기다리고 있습니다.",
  BackendMismatch: () => "컨테이너 엔진이 기록된 것과 다릅니다. 관리자가 확인해야 합니다.",
  ArchiveFailed: () => "보관하지 못했습니다. 파일은 볼륨에 그대로 있으며 다시 시도합니다.",
  DeletionFailed: () => "삭제하지 못했습니다. 다시 시도합니다.",
  KeptUntilDeleted: () => "파일이 이 볼륨에만 있어서, 삭제를 되돌릴 수 있는 동안 남겨 둡니다.",
  PullingImage: (message) => ["이미지를 내려받는 중입니다.", ...(message.match(/\d+ of \d+ \w+/) ?? [])].join(" ").replace(" of ", "/"),
  Unhealthy: () => "컨테이너의 상태 검사가 실패하고 있습니다. 회복되면 저절로 이어집니다.",
  Paused: () => "컨테이너가 일시 중지되어 있습니다.",
  Conflict: () => "컨테이너가 기록되지 않은 볼륨에서 실행되고 있습니다. 관리자가 확인해야 합니다.",
};

const listeners = [];
let language = chosen();

function chosen() {
  let stored = null;
  try { stored = localStorage.getItem("language"); } catch { /* storage may be off */ }
  if (stored in texts) return stored;
  const wanted = navigator.languages.map((l) => l.slice(0, 2)).find((l) => l in texts);
  return wanted ?? "en";
}

/** The texts of the chosen language. */
export const t = new Proxy({}, { get: (_, key) => texts[language][key] });

/** The chosen language's tag, for dates. */
export const locale = () => language;

/** What a workspace waits for. */
export function waiting({ reason, message }) {
  return (language === "ko" && waitsInKorean[reason]?.(message)) || message;
}

/** A time as people write it, without the date when it is today. */
export function date(time) {
  const at = new Date(time);
  const today = at.toDateString() === new Date().toDateString();
  return at.toLocaleString(language, today ? { timeStyle: "short" } : { dateStyle: "medium", timeStyle: "short" });
}

/** A number of bytes as people write it. */
export function size(bytes) {
  const units = ["byte", "kilobyte", "megabyte", "gigabyte", "terabyte"];
  const i = Math.min(units.length - 1, Math.max(0, Math.floor(Math.log10(Math.max(1, bytes)) / 3)));
  return new Intl.NumberFormat(language, { style: "unit", unit: units[i], maximumFractionDigits: 1 }).format(bytes / 1000 ** i);
}

/** Calls f now and whenever the language changes. */
export function onLanguage(f) {
  listeners.push(f);
  f();
}

/** What a failed request means, in the user's language. */
export function explain(failure, runningNames = "") {
  if (failure.problem?.scope === "global") return t.limit_global(failure.problem.limit);
  if (failure.problem?.scope === "user") return t.limit_user(failure.problem.limit, runningNames);
  const kind = failure.problem?.type?.split(":").pop();
  return t.problem[kind] ?? failure.problem?.detail ?? (failure.status ? t.unexpected(failure.status) : t.unreachable);
}

/** A failed request: status is 0 when the server did not answer. */
export class Failure extends Error {
  constructor(status, problem) {
    super(problem?.title ?? `status ${status}`);
    this.status = status;
    this.problem = problem;
  }
}

/** Sends a request to the API; returns its answer or throws a Failure. */
export async function api(method, path, body) {
  const init = { method, headers: {}, credentials: "same-origin" };
  if (body !== undefined) {
    init.headers["Content-Type"] = "application/json";
    init.body = JSON.stringify(body);
  }
  let answer;
  try {
    answer = await fetch(`/api/v1/${path}`, init);
  } catch {
    throw new Failure(0);
  }
  const text = await answer.text().catch(() => "");
  let data;
  try { data = text ? JSON.parse(text) : undefined; } catch { /* from a proxy in between */ }
  if (!answer.ok) throw new Failure(answer.status, data);
  return data;
}

function apply() {
  document.documentElement.lang = language;
  for (const el of document.querySelectorAll("[data-text]")) el.textContent = t[el.dataset.text];
  const button = document.getElementById("language");
  button.textContent = t.other;
  button.lang = language === "ko" ? "en" : "ko";
  for (const f of listeners) f();
}

document.getElementById("language").addEventListener("click", () => {
  language = language === "ko" ? "en" : "ko";
  try { localStorage.setItem("language", language); } catch { /* storage may be off */ }
  apply();
});
apply();
