/**
 * What users and groups are made of: the one description that answers /Schemas, that resources are read by, and that
 * filters and paths are checked against. RFC 7643; pure data.
 */

export const USER_SCHEMA = "urn:ietf:params:scim:schemas:core:2.0:User";
export const GROUP_SCHEMA = "urn:ietf:params:scim:schemas:core:2.0:Group";
export const ENTERPRISE_SCHEMA = "urn:ietf:params:scim:schemas:extension:enterprise:2.0:User";

/** An attribute, as RFC 7643 section 7 describes it. */
export interface Attribute {
  name: string;
  type: "string" | "boolean" | "complex" | "reference" | "dateTime";
  multiValued: boolean;
  description: string;
  required: boolean;
  mutability: "readWrite" | "readOnly" | "immutable";
  returned: "default" | "always";
  caseExact?: boolean;
  uniqueness?: "none" | "server";
  canonicalValues?: readonly string[];
  referenceTypes?: readonly string[];
  subAttributes?: readonly Attribute[];
}

/** A schema of the resources of one kind. */
export interface Schema {
  id: string;
  name: string;
  description: string;
  attributes: readonly Attribute[];
}

type Traits = Partial<Omit<Attribute, "name" | "description">>;

function attribute(name: string, description: string, traits: Traits = {}): Attribute {
  const type = traits.type ?? "string";
  const spelled = type === "string" ? { caseExact: false, uniqueness: "none" as const } : {};
  return {
    name,
    type,
    multiValued: false,
    description,
    required: false,
    mutability: "readWrite",
    returned: "default",
    ...spelled,
    ...traits,
  };
}

/** An attribute of several values, each with a kind and perhaps marked as the one to prefer. */
function plural(name: string, description: string, kinds: readonly string[], values: Attribute[]): Attribute {
  const type = kinds.length === 0 ? {} : { canonicalValues: kinds };
  return attribute(name, description, {
    type: "complex",
    multiValued: true,
    subAttributes: [
      ...values,
      attribute("type", "What kind of value this is", type),
      attribute("primary", "Whether this is the value to prefer", { type: "boolean" }),
    ],
  });
}

const display = attribute("display", "A name for people to read");

export const USER: Schema = {
  id: USER_SCHEMA,
  name: "User",
  description: "Somebody who may be a member of the team",
  attributes: [
    attribute("userName", "The name by which the directory knows the user, unique in the team", {
      required: true,
      uniqueness: "server",
    }),
    attribute("name", "The parts of the user's name", {
      type: "complex",
      subAttributes: [
        attribute("formatted", "The whole name"),
        attribute("familyName", "The family name"),
        attribute("givenName", "The given name"),
        attribute("middleName", "The middle name"),
        attribute("honorificPrefix", "A title before the name"),
        attribute("honorificSuffix", "A title after the name"),
      ],
    }),
    attribute("displayName", "The name to show"),
    attribute("nickName", "What the user is called"),
    attribute("profileUrl", "A page about the user", { type: "reference", referenceTypes: ["external"] }),
    attribute("title", "The user's position"),
    attribute("userType", "How the user belongs to the organization"),
    attribute("preferredLanguage", "The language that the user prefers"),
    attribute("locale", "Where the user is, for dates and numbers"),
    attribute("timezone", "The user's time zone"),
    attribute("active", "Whether the user is a member of the team; yes, unless it is said", {
      type: "boolean",
      required: true,
    }),
    plural(
      "emails",
      "E-mail addresses; the primary one, else the one for work, is whom the user signs in as",
      [
        "work",
        "home",
        "other",
      ],
      [attribute("value", "The address"), display],
    ),
    plural("phoneNumbers", "Telephone numbers", ["work", "home", "mobile", "fax", "pager", "other"], [
      attribute("value", "The number"),
      display,
    ]),
    plural("addresses", "Postal addresses", ["work", "home", "other"], [
      attribute("formatted", "The whole address"),
      attribute("streetAddress", "Street and number"),
      attribute("locality", "City"),
      attribute("region", "State or region"),
      attribute("postalCode", "Postal code"),
      attribute("country", "Country"),
    ]),
    plural("roles", "Roles in the organization; they give none here", [], [
      attribute("value", "The role"),
      display,
    ]),
    attribute("groups", "The groups that the user is in", {
      type: "complex",
      multiValued: true,
      mutability: "readOnly",
      subAttributes: [
        attribute("value", "The group's id", { mutability: "readOnly", caseExact: true }),
        attribute("$ref", "Where the group is", {
          type: "reference",
          referenceTypes: ["Group"],
          mutability: "readOnly",
        }),
        attribute("display", "The group's name", { mutability: "readOnly" }),
      ],
    }),
  ],
};

export const ENTERPRISE: Schema = {
  id: ENTERPRISE_SCHEMA,
  name: "EnterpriseUser",
  description: "The user's place in the organization",
  attributes: [
    attribute("employeeNumber", "The number that the organization gave the user"),
    attribute("costCenter", "The cost center"),
    attribute("organization", "The organization"),
    attribute("division", "The division"),
    attribute("department", "The department"),
    attribute("manager", "The user's manager", {
      type: "complex",
      subAttributes: [
        attribute("value", "The manager's id", { caseExact: true }),
        attribute("$ref", "Where the manager is", { type: "reference", referenceTypes: ["User"] }),
        attribute("displayName", "The manager's name", { mutability: "readOnly" }),
      ],
    }),
  ],
};

export const GROUP: Schema = {
  id: GROUP_SCHEMA,
  name: "Group",
  description: "Users who may have a role in the team together",
  attributes: [
    attribute("displayName", "The group's name, unique in the team", {
      required: true,
      uniqueness: "server",
    }),
    attribute("members", "The users in the group", {
      type: "complex",
      multiValued: true,
      subAttributes: [
        attribute("value", "The user's id", { mutability: "immutable", caseExact: true }),
        attribute("$ref", "Where the user is", {
          type: "reference",
          referenceTypes: ["User"],
          mutability: "immutable",
        }),
        attribute("type", "What kind of member this is", {
          mutability: "immutable",
          canonicalValues: ["User"],
        }),
      ],
    }),
  ],
};

export const SCHEMAS: readonly Schema[] = [USER, ENTERPRISE, GROUP];

/** A kind of resource: its endpoint, its schema and what may extend it. RFC 7643 section 6. */
export interface ResourceType {
  id: "User" | "Group";
  endpoint: "/Users" | "/Groups";
  schema: Schema;
  extensions: readonly Schema[];
}

export const USER_TYPE: ResourceType = {
  id: "User",
  endpoint: "/Users",
  schema: USER,
  extensions: [ENTERPRISE],
};
export const GROUP_TYPE: ResourceType = { id: "Group", endpoint: "/Groups", schema: GROUP, extensions: [] };
export const RESOURCE_TYPES: readonly ResourceType[] = [USER_TYPE, GROUP_TYPE];

const COMMON: readonly Attribute[] = [
  attribute("id", "The resource's id", {
    mutability: "readOnly",
    returned: "always",
    caseExact: true,
    uniqueness: "server",
  }),
  attribute("externalId", "The directory's own id of the resource", { caseExact: true }),
  attribute("meta", "When and where", {
    type: "complex",
    mutability: "readOnly",
    subAttributes: [
      attribute("resourceType", "The kind of resource", { mutability: "readOnly", caseExact: true }),
      attribute("created", "When it was made", { type: "dateTime", mutability: "readOnly" }),
      attribute("lastModified", "When it was changed last", { type: "dateTime", mutability: "readOnly" }),
      attribute("location", "Where it is", {
        type: "reference",
        referenceTypes: ["uri"],
        mutability: "readOnly",
      }),
      attribute("version", "Its version, as in the ETag", { mutability: "readOnly", caseExact: true }),
    ],
  }),
];

/** The attributes that have no schema of their own, and those of the core schema. RFC 7643 section 3.1. */
export function coreAttributes(type: ResourceType): readonly Attribute[] {
  return [...COMMON, ...type.schema.attributes];
}

/** Names are compared without case. RFC 7643 section 2.1. */
export function findAttribute(attributes: readonly Attribute[], name: string): Attribute | undefined {
  const wanted = name.toLowerCase();
  return attributes.find((each) => each.name.toLowerCase() === wanted);
}
