"""The conditional distributions of the synthetic census.

A table gives the probability of each value of a column, given the columns drawn before it. Its numbers are weights in
hundredths of a nat: the ``bias`` row and one row of each parent are added and converted to probabilities by softmax.
They were fitted to the 45,222 complete rows of UCI Adult (CC BY 4.0) by multinomial logistic regression, which nearly
keeps every two-way table of a column with one of its parents. In shares and counts that are given directly, cells of
fewer than five people were dropped, pooled or raised to five. The health condition and the postal code are invented:
Adult has neither.
"""

from __future__ import annotations

from typing import NamedTuple


class Weights(NamedTuple):
    """Weights of a column's values given its parents; ``"a*b"`` is a parent made of two columns."""

    values: tuple[str, ...]
    parents: tuple[str, ...]
    rows: str
    """``label | weight of each value``: first the bias, then the values of each parent in order."""


SEX = ("Female", "Male")
SEX_SHARES = (3250, 6750)

AGE_BANDS = (20, 25, 30, 35, 45, 55, 65)
"""Starts of the bands after the first one, 17-19."""
BANDS = ("17-19", "20-24", "25-29", "30-34", "35-44", "45-54", "55-64", "65-")
# fmt: off
AGE_EDGES = (17, 18, 19, 20, 22, 24, 26, 28, 30, 32, 34, 36, 38, 40, 42, 44, 46, 48, 50, 52, 54, 56, 58, 60, 62, 64,
             66, 68, 70, 73, 76, 80, 90, 91)
AGE_SHARES = {
    "Female": (167, 233, 287, 575, 661, 594, 534, 538, 529, 474, 486, 499, 469, 477, 419, 404, 431, 328, 312, 261,
               223, 203, 189, 154, 131, 113, 82, 56, 61, 50, 29, 21, 8),
    "Male": (81, 116, 145, 330, 427, 455, 480, 512, 561, 582, 587, 582, 554, 530, 512, 488, 481, 374, 395, 329, 272,
             245, 238, 185, 136, 110, 78, 55, 59, 39, 28, 22, 11),
}

HOURS_BANDS = ("1-19", "20-29", "30-34", "35-39", "40", "41-49", "50-59", "60-")
HOURS_SHARES: dict[str, dict[int, int]] = {
    "1-19": {2: 12, 3: 18, 4: 24, 5: 30, 6: 30, 7: 16, 8: 76, 9: 12, 10: 166, 11: 8, 12: 100, 13: 11, 14: 20, 15: 260,
             16: 126, 17: 20, 18: 56, 19: 10},
    "20-29": {20: 522, 21: 13, 22: 18, 23: 11, 24: 99, 25: 267, 26: 12, 27: 13, 28: 40, 29: 4},
    "30-34": {30: 750, 31: 6, 32: 190, 33: 30, 34: 24},
    "35-39": {35: 580, 36: 101, 37: 77, 38: 222, 39: 20},
    "40": {40: 1000},
    "41-49": {41: 12, 42: 73, 43: 49, 44: 67, 45: 581, 46: 28, 47: 18, 48: 164, 49: 8},
    "50-59": {50: 728, 51: 4, 52: 36, 53: 6, 54: 10, 55: 181, 56: 24, 57: 3, 58: 7, 59: 1},
    "60-": {60: 568, 62: 6, 63: 4, 64: 6, 65: 95, 66: 6, 68: 4, 70: 114, 72: 26, 75: 27, 78: 4, 80: 51, 84: 18, 85: 5,
            90: 11, 96: 2, 98: 4, 99: 33},
}

CAPITAL_GAIN_SHARES: dict[str, dict[int, int]] = {
    "<=50K": {0: 95840, 594: 190, 1055: 180, 1506: 170, 2174: 300, 2407: 330, 2597: 260, 2829: 260, 3137: 250,
              3325: 290, 3464: 260, 3908: 260, 4064: 260, 4416: 180, 4650: 270, 5013: 400, 6849: 220},
    ">50K": {0: 78810, 3103: 1300, 4386: 860, 4787: 390, 5178: 1360, 6418: 280, 7298: 3210, 7688: 3620, 8614: 760,
             9386: 250, 10520: 660, 13550: 440, 14084: 460, 14344: 380, 15024: 4610, 20051: 410, 25236: 160,
             27828: 520, 99999: 2043},
}

COUNTRY_COUNTS: dict[str, dict[str, int]] = {
    "White": {"United-States": 36347, "Mexico": 825, "Germany": 179, "Canada": 160, "El-Salvador": 138,
              "Puerto-Rico": 132, "Cuba": 126, "England": 108, "Italy": 100, "Poland": 80, "Guatemala": 77,
              "Columbia": 73, "Portugal": 60, "Dominican-Republic": 57, "Greece": 48, "Iran": 41, "Peru": 41,
              "Nicaragua": 40, "Ireland": 35, "France": 33, "Japan": 31, "Ecuador": 30, "Yugoslavia": 23,
              "Scotland": 19, "Hungary": 18, "Honduras": 15, "India": 15, "Philippines": 13,
              "Outlying-US(Guam-USVI-etc)": 11, "Jamaica": 5, "Holand-Netherlands": 5},
    "Black": {"United-States": 3962, "Jamaica": 95, "Haiti": 66, "Trinadad&Tobago": 20, "Dominican-Republic": 18,
              "Puerto-Rico": 13, "Germany": 9, "England": 8, "Outlying-US(Guam-USVI-etc)": 8, "Mexico": 5},
    "Asian-Pac-Islander": {"United-States": 398, "Philippines": 267, "India": 121, "China": 110, "South": 98,
                           "Vietnam": 81, "Japan": 52, "Taiwan": 52, "Thailand": 24, "Cambodia": 23, "Hong": 23,
                           "Laos": 21, "Iran": 9},
    "Amer-Indian-Eskimo": {"United-States": 417, "Mexico": 11},
    "Other": {"United-States": 168, "Mexico": 61, "Puerto-Rico": 28, "Dominican-Republic": 21, "Ecuador": 12,
              "India": 9, "Columbia": 8, "El-Salvador": 8, "Guatemala": 8, "Iran": 6},
}
ORIGINS = ("United-States", "Latin-America", "elsewhere")
LATIN_AMERICA = ("Mexico", "Puerto-Rico", "El-Salvador", "Cuba", "Jamaica", "Dominican-Republic", "Guatemala",
                 "Columbia", "Haiti", "Nicaragua", "Peru", "Ecuador", "Trinadad&Tobago", "Honduras")
# fmt: on

MARITAL = Weights(
    (
        "Never-married",
        "Married-civ-spouse",
        "Married-AF-spouse",
        "Married-spouse-absent",
        "Separated",
        "Divorced",
        "Widowed",
    ),
    ("age*sex",),
    """
    bias         |  -46    0 -730 -340 -267 -133 -434
    17-19 Female |  307 -179  410   73    0  -86 -276
    17-19 Male   |  450    0   16  161  -23 -154 -162
    20-24 Female |  155 -161  189   13    0  -90 -144
    20-24 Male   |  225   22 -197   11    0  -86  -95
    25-29 Female |   51 -144   84    1    0  -25  -71
    25-29 Male   |  103   41  213  -30    0  -50 -122
    30-34 Female |    0 -131  220  -22   49   28   -6
    30-34 Male   |   16   57  106  -14    0  -13 -160
    35-44 Female | -104 -170   40  -53    0   22   65
    35-44 Male   |  -33   90  -47    0   21   38  -57
    45-54 Female | -109 -133 -316    0   56   88  239
    45-54 Male   | -127   83  -32    0  -44   21   62
    55-64 Female | -167 -161   35  -30    0   53  326
    55-64 Male   | -136  117 -251    0  -28   29  193
    65- Female   |  -45 -131  -92   48    0  120  521
    65- Male     |  -64  165 -107   97  -32    0  379
    """,
)

RACE = Weights(
    ("White", "Black", "Asian-Pac-Islander", "Amer-Indian-Eskimo", "Other"),
    ("sex", "marital-status"),
    """
    bias                  |    0 -233 -344 -452 -474
    Female                |   -9   25    7    0   -1
    Male                  |    4  -12   -3    0    0
    Never-married         |  -12   23    0    0    7
    Married-civ-spouse    |   14  -22   24   -8    0
    Married-AF-spouse     |   54    0   48 -139 -137
    Married-spouse-absent |  -90  -33   39    0   60
    Separated             |  -35   81  -70    0   50
    Divorced              |    0    6  -64   26  -23
    Widowed               |    0   19  -12   26  -34
    """,
)

EDUCATION = Weights(
    (
        "Preschool",
        "1st-4th",
        "5th-6th",
        "7th-8th",
        "9th",
        "10th",
        "11th",
        "12th",
        "HS-grad",
        "Some-college",
        "Assoc-voc",
        "Assoc-acdm",
        "Bachelors",
        "Masters",
        "Prof-school",
        "Doctorate",
    ),
    ("age", "sex", "race", "origin"),
    """
    bias               | -646 -562 -460 -326 -326 -264 -247 -350    0  -43 -214 -245  -92 -216 -391 -411
    17-19              |   64  -43    7   -2   93  173  244  235    2   30 -262 -322 -526 -411 -431 -422
    20-24              |   25  -71  -11  -40    0   -5   22   40   12   68    0   17   11 -168 -502 -317
    25-29              | -108  -75  -37  -55  -21   -1    4    1    6    2   31   36   56   -1   41  -44
    30-34              |   -6  -35  -57  -36   -9  -12   -1    1    5   -7   33   31   36   19   68   46
    35-44              |  -29   -3  -21  -23  -22  -32  -30  -28    3    3   35   46   42   68  120   75
    45-54              |   32   34   17   24  -17  -25  -32  -45  -19  -28   -9   -5    5   67   94  110
    55-64              |    2   83   58   69   13    4  -59  -49  -52  -83  -81  -99  -62   -2   53   64
    65-                |  106  124  105  141   25   16  -33  -54  -47  -78  -80 -123  -56  -16   93   79
    Female             |   -6  -14  -16  -12   -4    5    4   -6   14   29   29   41   19   28  -33  -14
    Male               |    3    7    8    6    2   -3   -2    3   -7  -14  -14  -20   -9  -13   16    7
    White              |   -9    1    0    0   -4   -4   -5   -6   -1   -1    2    0    5    6   11   12
    Black              |   42  -11  -19   19   51   47   49   58   16    4  -22   -4  -44  -61 -114 -113
    Asian-Pac-Islander |  117  -27   57  -80  -66  -69  -49  -35  -23    6   -6    6   41   47   79   34
    Amer-Indian-Eskimo |   65   85  -38   18    9   43   36  -15    2   -2   17  -42 -114  -84 -132  -90
    Other              |  -52    4  -11   58   29   -2   37   86   -8    9  -29    2  -18  -11   31  -23
    United-States      |  -24  -29  -24  -10   -7    0    0   -3    3    5    5    4    5    4    3    0
    Latin-America      |  382  416  383  162  162   48   31   76  -31  -53  -88  -77  -98  -86  -74  -77
    elsewhere          |  115  185  114   43   -2  -44  -29  -15  -34  -45  -22  -12    2   14   15   89
    """,
)

RELATIONSHIP = Weights(
    ("Husband", "Wife", "Own-child", "Other-relative", "Unmarried", "Not-in-family"),
    ("marital-status*sex", "age"),
    """
    bias                         | -244 -610  -10  -34 -250    0
    Never-married Female         | -596 -236   58  -58  273  159
    Never-married Male           | -633 -278   49  -49  166  145
    Married-civ-spouse Female    |  -94  950   94  174 -194 -162
    Married-civ-spouse Male      |  767  149  -49   49 -336 -182
    Married-AF-spouse Female     | -192  950  -50   50   81 -133
    Married-AF-spouse Male       |  645  145 -156 -120  108 -108
    Married-spouse-absent Female | -411  -28   21  -21  389  124
    Married-spouse-absent Male   | -423  -38  -33   33  289  174
    Separated Female             | -471  -82    2   -2  436  108
    Separated Male               | -448  -70   21  -21  298  187
    Divorced Female              | -558 -154   27  -27  456  201
    Divorced Male                | -543 -148   57  -57  334  223
    Widowed Female               | -474  -44  -16   16  502  217
    Widowed Male                 | -416    2   -2  -34  443  181
    17-19                        | -123   16  281  160  -29  -16
    20-24                        |  -86  -39  154   64    2   -2
    25-29                        | -109    4   51    9   -6   -4
    30-34                        |  -26   -3   16  -15   27    3
    35-44                        |   11   14  -30  -52   24  -11
    45-54                        |   94   -3  -73  -12    3    7
    55-64                        |   74   10 -134   -3  -63    3
    65-                          |  135  -34 -178   34 -103   37
    """,
)

OCCUPATION = Weights(
    (
        "Exec-managerial",
        "Prof-specialty",
        "Tech-support",
        "Adm-clerical",
        "Sales",
        "Craft-repair",
        "Machine-op-inspct",
        "Transport-moving",
        "Handlers-cleaners",
        "Farming-fishing",
        "Other-service",
        "Priv-house-serv",
        "Protective-serv",
        "Armed-Forces",
    ),
    ("education", "sex", "age"),
    """
    bias         |  -10  -63 -155  -28    0  -49 -101 -153 -160 -177  -43 -499 -192 -776
    Preschool    | -155  -94 -233  -42  -91   26  188   20  138  266  181  256 -217  -20
    1st-4th      | -139  -89 -330 -113  -93   42  169   48  185  192  157  346 -115  -42
    5th-6th      | -182 -223 -193 -141  -80   75  193  114  193  175  140  300 -175  -75
    7th-8th      | -157 -177 -131 -173 -111   57  127   86  107  124   62  128  -57 -117
    9th          | -149 -259 -189 -159  -81   55  111   72  114   66   66  161  -55 -129
    10th         | -118 -186 -178 -100  -39   76  115  117  108   75   78   39  -61 -133
    11th         | -125 -129 -157  -89  -29   52   78   90   96   29   47   86  -60 -162
    12th         | -163 -165 -173  -88  -86   -3   44   52   36    3    8   87  -60  138
    HS-grad      |  -74 -144  -72  -21  -49   24   48   42   39   -2    3   17  -25    2
    Some-college |    0  -20   33   27    2   -2  -10   -8    0  -25    4  -45   28   14
    Assoc-voc    |   -1   61  122   15  -32   49    1  -35  -30   47   -5  -19   51 -169
    Assoc-acdm   |   39   80  112   57   29    3  -24  -48  -25  -39   -3  -65   58 -148
    Bachelors    |  134  206  106   53   93  -57  -89  -86  -61  -18  -33    9   40   -9
    Masters      |  215  338  120   45  100  -98  -95  -87 -123  -38  -30 -221   30  281
    Prof-school  |  124  441  112   12   40  -81 -348  -87 -312   32  -12  -63 -119  353
    Doctorate    |  256  503  169   33  113  -49  -68  -17 -216  -43 -278  266  -12   12
    Female       |   13   52   34  107   19 -139  -13 -138  -81 -125   65  242  -72 -275
    Male         |   -6  -25  -16  -52   -9   67    6   67   39   60  -31 -116   35  133
    17-19        | -107   15  -27   41  113  -72  -45  -96  105   38  114   63  -15 -137
    20-24        |  -75  -24  -17    4   14  -36    7  -37   75   -4   42   33  -32  199
    25-29        |  -28   -9   23    2  -17    1   10   -7   43  -17   -1   14   13   -3
    30-34        |   -7   -2    6  -11  -20   15   10    2    2  -18   -7  -61   16   89
    35-44        |   22    5    8   -8  -15   23   13   17  -14   10  -17  -40   -5  -17
    45-54        |   34    1   -4   -6   -3   10   -1   17  -41  -21  -24    3    5    8
    55-64        |   40   12   -6    8    6   -7  -27   18  -70   15  -13   40  -14 -225
    65-          |   40   -1  -63    9   32  -87  -96  -25  -66   71    1  138   33 -164
    """,
)

WORKCLASS = Weights(
    ("Private", "Self-emp-not-inc", "Self-emp-inc", "Federal-gov", "State-gov", "Local-gov", "Without-pay"),
    ("occupation", "age", "sex"),
    """
    bias              |    0 -273 -377 -374 -333 -299 -879
    Exec-managerial   |  -47    0   99   29   15  -12  -60
    Prof-specialty    |  -87  -14    0    6   73   84 -276
    Tech-support      |    5  -62 -116  120   78    0 -118
    Adm-clerical      |  -56 -187 -117  116   37    0    9
    Sales             |   43  101  163 -143 -165 -219    0
    Craft-repair      |   11   73    0  -39  -51   -1   11
    Machine-op-inspct |  145    8  -39    0  -25  -48  239
    Transport-moving  |    2    0  -70  -53  -14   51   69
    Handlers-cleaners |   24 -156 -192    0  -96    3  155
    Farming-fishing   |  -35  210   91 -106  -32    0  331
    Other-service     |  -15    0  -82  -53   21   24    9
    Priv-house-serv   |  526  -55    0   46   -5  -36  103
    Protective-serv   |    0 -125  -69  172  283  347   -9
    Armed-Forces      | -213  -25   -4  645    0    6  100
    17-19             |   59  -53    0  -75    5  -24  200
    20-24             |   74  -58  -45  -17   59    0   90
    25-29             |   31  -16  -41  -16    0    2   63
    30-34             |   12    3  -14   -8    2    0 -226
    35-44             |  -13   11   13   17   -3    0  -94
    45-54             |  -50   -3    9   16  -25    0   52
    55-64             |  -60   24   14    0  -34  -21   68
    65-               |  -41  101   90  -48  -48    0  257
    Female            |    0  -38  -79  -36    0   23   27
    Male              |    0   18   38   17    0  -11  -13
    """,
)

HOURS = Weights(
    ("1-19", "20-29", "30-34", "35-39", "40", "41-49", "50-59", "60-"),
    ("age", "sex", "occupation", "self-employed"),
    """
    bias              | -305 -242 -258 -201    0 -165 -154 -211
    17-19             |  277  222  138   34  -34 -111  -88 -112
    20-24             |   94   95   64   16  -16  -50  -47  -62
    25-29             |  -31   -9   -9   -4    7   12   10    4
    30-34             |  -42  -38  -22   -5    5   18   22   27
    35-44             |  -58  -43  -20   -8    8   27   29   37
    45-54             |  -49  -53  -29   -5    5   20   14   20
    55-64             |   36   17   -5    9    5   -9  -17  -14
    65-               |  227  163   68   22  -22  -63  -74  -90
    Female            |   35   28   23   26  -23  -55  -74  -73
    Male              |  -17  -13  -11  -13   11   26   36   35
    Exec-managerial   |  -29  -43  -37  -10   10   53   89   72
    Prof-specialty    |   24   -5  -19    2  -31   -2   27   21
    Tech-support      |   51   22  -18    7   14   -7  -22  -37
    Adm-clerical      |   10   14  -10   22   14  -17  -50  -67
    Sales             |   -5   12   -4  -22  -50    4   23   20
    Craft-repair      |  -30  -32   -5   11   43   26    5  -19
    Machine-op-inspct |  -39   -8   29    1   85   63   -1  -32
    Transport-moving  |  -19    3   13  -35   -8   -3   11   68
    Handlers-cleaners |   24   33   28   -5    5  -43  -77  -68
    Farming-fishing   |  -12   -1    1   14   -7  -16   30  100
    Other-service     |   57   71   69   29  -29  -76  -77  -39
    Priv-house-serv   |   75   41   66  -57  -74 -102  -41   59
    Protective-serv   |    6  -35    8  -27   16   -6   -7   31
    Armed-Forces      |   81 -240 -216 -246    1   17    4   -1
    employed          |   -2    0   -2    4   11    8    0   -7
    self-employed     |   12    3   14  -30  -80  -55   -3   54
    """,
)

CONDITION = Weights(
    (
        "Healthy",
        "Hypertension",
        "Heart-disease",
        "Diabetes",
        "Obesity",
        "Asthma",
        "COPD",
        "Back-pain",
        "Arthritis",
        "Depression",
        "Anxiety",
        "Cancer",
    ),
    ("age", "sex", "occupation"),
    """
    bias              |    0 -165 -320 -260 -235 -265 -390 -190 -270 -260 -250 -400
    17-19             |   70 -250 -300 -180  -60  110 -300 -110 -300  -10   60 -200
    20-24             |   60 -180 -250 -130  -30   70 -250  -60 -250   20   60 -150
    25-29             |   45 -120 -200  -90    0   30 -180  -20 -180   30   45 -110
    30-34             |   30  -70 -130  -50   20   10 -110    0 -110   30   30  -70
    35-44             |    5  -10  -40    0   30    0  -30   20  -30   20   10  -10
    45-54             |  -25   50   50   50   30  -10   50   30   60    0  -10   50
    55-64             |  -60   90  120   90   10  -20  100   10  120  -40  -40  100
    65-               |  -90  120  180  110  -30  -30  140  -20  170  -70  -70  150
    Female            |    0  -15  -40  -10    5   20  -10    0   30   40   40   10
    Male              |    0    8   20    5   -3  -10    5    0  -15  -20  -20   -5
    Exec-managerial   |   10   20   10    0    0    0  -20  -30  -20   10   20    0
    Prof-specialty    |   15    0    0  -10  -20    0  -30  -20  -20   20   30    0
    Tech-support      |   10    0    0    0   10    0  -20  -10  -10   10   10    0
    Adm-clerical      |    0    0    0   10   20    0  -10   10   10   20   20    0
    Sales             |    5    0    0    0    0    0    0    0    0    5   10    0
    Craft-repair      |  -10    0    0    0    0   20   50   60   30  -20  -30    0
    Machine-op-inspct |  -15    0    0   10   10   30   60   50   30    0  -10   10
    Transport-moving  |  -20   30   30   40   60    0   30   60    0    0    0    0
    Handlers-cleaners |  -10  -10  -10    0    0   20   30   80   20    0    0    0
    Farming-fishing   |    0    0   10    0    0   30   30   60   40   -5  -30   30
    Other-service     |  -10    0    0   20   20   10   10   30   10   20   10    0
    Priv-house-serv   |  -10   10    0   20   10   10    0   40   30   30   10    0
    Protective-serv   |    0   20   20    0   10    0    0   20    0   30   20    0
    Armed-Forces      |   30  -20  -20  -30  -40    0    0   20    0   40   30    0
    """,
)

REGION = Weights(
    tuple("123456789"),
    ("origin",),
    """
    bias          |    0   10   -5   30  -20    5  -10  -40   20
    United-States |    0    0    0    0    0    0    0    0    0
    Latin-America |   60 -120   90 -100 -150  -40   80 -120  150
    elsewhere     |   70  -40    0  -50 -120   40  -30  -80   90
    """,
)
AREAS = 10
TOWNS = 40

INCOME = ("<=50K", ">50K")
INCOME_BIAS = -219
# fmt: off
INCOME_WEIGHTS: dict[str, tuple[int, ...]] = {
    "age": (-245, -158, -55, 7, 49, 81, 64, 48),
    "education": (-180, -162, -133, -153, -143, -114, -97, -68, -34, 1, 13, 16, 78, 110, 188, 176),
    "relationship": (101, 225, -140, -82, -95, -73),
    "occupation": (71, 48, 49, -6, 24, -6, -41, -16, -72, -84, -91, -114, 49, 20),
    "workclass": (5, -39, 33, 43, -34, -16, -67),
    "hours": (-102, -91, -82, -13, 2, 38, 54, 43),
    "sex": (-47, 22),
    "race": (2, -15, -7, -46, 4),
    "origin": (3, -59, 2),
}
"""Log-odds of the higher income, in hundredths of a nat."""
# fmt: on
